#include <tandem/nn/sequential.h>

namespace tandem::nn {

Sequential& Sequential::append(std::unique_ptr<Module> module) {
  check(module != nullptr, "[Sequential] no module to append");
  add(std::to_string(modules_.size()), *module);
  modules_.push_back(std::move(module));
  return *this;
}

Module& Sequential::operator[](size_t i) const {
  check(i < modules_.size(), "[Sequential] module ", i, " of ", modules_.size());
  return *modules_[i];
}

Tensor Sequential::forward(const Tensor& x) {
  if (modules_.empty()) return x;
  Tensor h = (*modules_[0])(x);
  for (size_t i = 1; i < modules_.size(); ++i) h = (*modules_[i])(std::move(h));
  return h;
}

Tensor Sequential::consume(Tensor x) {
  for (auto& m : modules_) x = (*m)(std::move(x));
  return x;
}

}  // namespace tandem::nn
