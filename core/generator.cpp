#include <tandem/core/generator.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <sstream>

namespace tandem {

void Generator::manual_seed(uint64_t seed) {
  seed_ = seed;
  engine_.seed(uint32_t(seed));
  next_normal_.reset();
}

double Generator::normal_double() {
  if (next_normal_) return *std::exchange(next_normal_, std::nullopt);
  const double turn = uniform_double(), u = uniform_double();
  const double radius = std::sqrt(-2 * std::log1p(-u)), angle = 2 * std::numbers::pi * turn;
  next_normal_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

int64_t Generator::randint(int64_t low, int64_t high) {
  check(low < high, "[randint] an empty range from ", low, " to ", high);
  uint64_t range = uint64_t(high) - uint64_t(low);
  uint64_t draw = range >= (1ull << 32) ? random64() : random();
  return int64_t(uint64_t(low) + draw % range);
}

std::vector<int64_t> Generator::randperm(int64_t n) {
  check(n >= 0, "[randperm] of ", n);
  std::vector<int64_t> p(static_cast<size_t>(n));
  std::iota(p.begin(), p.end(), int64_t{0});
  for (int64_t i = 0; i + 1 < n; ++i) std::swap(p[size_t(i)], p[size_t(i + randint(0, n - i))]);
  return p;
}

std::string Generator::state() const {
  std::ostringstream s;
  s.imbue(std::locale::classic());
  s << seed_ << ' ' << engine_;
  if (next_normal_) s << ' ' << std::bit_cast<uint64_t>(*next_normal_);
  return s.str();
}

void Generator::set_state(const std::string& state) {
  std::istringstream s(state);
  s.imbue(std::locale::classic());
  uint64_t seed;
  std::mt19937 engine;
  s >> seed >> engine;
  check(!s.fail(), "[set_state] this is no generator's state");
  uint64_t normal;
  const bool kept = bool(s >> normal);
  check(s.eof(), "[set_state] this is no generator's state");
  seed_ = seed;
  engine_ = engine;
  next_normal_ = kept ? std::optional(std::bit_cast<double>(normal)) : std::nullopt;
}

Generator& default_generator() { return context().generator.get(); }

void manual_seed(uint64_t seed) {
  default_generator().manual_seed(seed);
  context().random = {.seed = seed};
}

}  // namespace tandem
