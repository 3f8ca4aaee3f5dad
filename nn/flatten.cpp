#include <tandem/nn/flatten.h>
#include <tandem/ops/view.h>

namespace tandem::nn {

Tensor Flatten::forward(const Tensor& x) { return flatten(x, start_dim, end_dim); }

std::string Flatten::extra_repr() const { return message("start_dim=", start_dim, ", end_dim=", end_dim); }

}  // namespace tandem::nn
