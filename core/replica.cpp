#include <tandem/core/replica.h>

namespace tandem {

const Tensor& twin(const Tensor& t, const Replica& r) {
  if (!t || !t.impl()->twins) return t;
  for (auto& [replica, twin] : t.impl()->twins->of)
    if (replica == &r) return twin;
  return t;
}

void set_twin(const Tensor& t, const Replica& r, Tensor twin) {
  clear_twin(t, r);
  auto& twins = t.impl()->twins;
  if (!twins) twins = std::make_unique<Twins>();
  twins->of.emplace_back(&r, std::move(twin));
}

void clear_twin(const Tensor& t, const Replica& r) {
  auto& twins = t.impl()->twins;
  if (!twins) return;
  std::erase_if(twins->of, [&](auto& entry) { return entry.first == &r; });
  if (twins->of.empty()) twins = nullptr;
}

}  // namespace tandem
