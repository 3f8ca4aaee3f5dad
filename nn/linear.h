/// A linear layer (torch.nn.Linear): y = x weightᵀ + bias.
#pragma once
#include <tandem/nn/module.h>

namespace tandem::nn {

struct TANDEM_API Linear : Module {
  struct Options {
    bool bias = true;
    Dtype dtype = Dtype::f32;
    Device device = current_device();
  };
  Linear(int64_t in_features, int64_t out_features) : Linear(in_features, out_features, Options()) {}
  Linear(int64_t in_features, int64_t out_features, Options options);

  /// [..., in] to [..., out]
  Tensor forward(const Tensor& x) override;
  /// Draws the weights anew: uniform in ±1/sqrt(in), weight first, then bias.
  void reset_parameters();
  std::string extra_repr() const override;

  Tensor weight;  // [out, in]
  Tensor bias;    // [out], or undefined
};

}  // namespace tandem::nn
