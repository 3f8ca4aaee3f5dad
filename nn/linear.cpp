#include <tandem/nn/init.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/repr.h>
#include <tandem/ops/linear.h>

#include <cmath>

namespace tandem::nn {

Linear::Linear(int64_t in_features, int64_t out_features, Options o) {
  check<ShapeError>(in_features >= 0 && out_features >= 0, "[Linear] ", in_features, " features to ", out_features);
  const TensorOptions t{.dtype = o.dtype, .device = o.device};
  weight = empty({out_features, in_features}, t);
  if (o.bias) bias = empty({out_features}, t);
  add("weight", weight);
  add("bias", bias);
  reset_parameters();
}

void Linear::reset_parameters() {
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.)});
  const int64_t fan_in = weight.size(1);
  const double bound = fan_in > 0 ? 1 / std::sqrt(double(fan_in)) : 0;
  if (bias) init::uniform_(bias, -bound, bound);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

std::string Linear::extra_repr() const {
  return message("in_features=", weight.size(1), ", out_features=", weight.size(0), ", bias=", repr(bias.defined()));
}

}  // namespace tandem::nn
