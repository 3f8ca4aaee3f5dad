/// Layer normalisation over the trailing dimensions (torch.nn.LayerNorm).
#pragma once
#include <tandem/nn/module.h>

namespace tandem::nn {

struct TANDEM_API LayerNorm : Module {
  struct Options {
    double eps = 1e-5;
    bool elementwise_affine = true;  // a weight
    bool bias = true;                // beside the weight
    Dtype dtype = Dtype::f32;
    Device device = current_device();
  };
  explicit LayerNorm(int64_t width) : LayerNorm(Dims{width}) {}
  explicit LayerNorm(const Dims& normalized_shape) : LayerNorm(normalized_shape, Options()) {}
  LayerNorm(int64_t width, Options options) : LayerNorm(Dims{width}, options) {}
  LayerNorm(const Dims& normalized_shape, Options options);

  /// [..., normalized_shape]
  Tensor forward(const Tensor& x) override;
  /// weight 1, bias 0
  void reset_parameters();
  std::string extra_repr() const override;

  const Dims normalized_shape;
  const Options options;
  Tensor weight, bias;  // normalized_shape, or undefined
};

}  // namespace tandem::nn
