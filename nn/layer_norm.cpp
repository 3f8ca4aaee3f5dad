#include <tandem/nn/init.h>
#include <tandem/nn/layer_norm.h>
#include <tandem/nn/repr.h>
#include <tandem/ops/layer_norm.h>

namespace tandem::nn {

LayerNorm::LayerNorm(const Dims& shape, Options o) : normalized_shape(shape), options(o) {
  const TensorOptions t{.dtype = o.dtype, .device = o.device};
  if (o.elementwise_affine) weight = empty(shape, t);
  if (o.elementwise_affine && o.bias) bias = empty(shape, t);
  add("weight", weight);
  add("bias", bias);
  reset_parameters();
}

void LayerNorm::reset_parameters() {
  if (weight) init::ones_(weight);
  if (bias) init::zeros_(bias);
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, normalized_shape, weight, bias, options.eps); }

std::string LayerNorm::extra_repr() const {
  std::string shape;
  for (int64_t n : normalized_shape) shape += message(shape.empty() ? "" : ", ", n);
  return message('(', shape, normalized_shape.size() == 1 ? ",)" : ")", ", eps=", options.eps,
                 ", elementwise_affine=", repr(options.elementwise_affine));
}

}  // namespace tandem::nn
