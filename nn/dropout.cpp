#include <tandem/nn/dropout.h>
#include <tandem/ops/dropout.h>

namespace tandem::nn {

Dropout::Dropout(double probability) : p(probability) {
  check(p >= 0 && p <= 1, "[Dropout] p is ", p, ", and has to lie in [0, 1]");
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p, is_training()); }
Tensor Dropout::consume(Tensor x) { return dropout(std::move(x), p, is_training()); }

std::string Dropout::extra_repr() const { return message("p=", p); }

}  // namespace tandem::nn
