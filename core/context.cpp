#include <tandem/core/context.h>
#include <tandem/core/generator.h>

namespace tandem {

LazyGenerator::LazyGenerator() : LazyGenerator(Generator::kDefaultSeed) {}
LazyGenerator::LazyGenerator(uint64_t seed) : seed_(seed) {}
LazyGenerator::LazyGenerator(const LazyGenerator& o)
    : seed_(o.seed_), made_(o.made_ ? std::make_unique<Generator>(*o.made_) : nullptr) {}
LazyGenerator::LazyGenerator(LazyGenerator&&) noexcept = default;
LazyGenerator& LazyGenerator::operator=(LazyGenerator o) noexcept {
  seed_ = o.seed_;
  made_ = std::move(o.made_);
  return *this;
}
LazyGenerator::~LazyGenerator() = default;

Generator& LazyGenerator::get() {
  if (!made_) made_ = std::make_unique<Generator>(seed_);
  return *made_;
}

Context& context() {
  static thread_local Context c;
  return c;
}

}  // namespace tandem
