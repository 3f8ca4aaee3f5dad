/// A convolution over images (torch.nn.Conv2d).
#pragma once
#include <tandem/nn/module.h>
#include <tandem/ops/pair.h>

namespace tandem::nn {

struct TANDEM_API Conv2d : Module {
  struct Options {
    Pair kernel;
    Pair stride = 1, padding = 0, dilation = 1;
    int64_t groups = 1;
    bool bias = true;
    Dtype dtype = Dtype::f32;
    Device device = current_device();
  };
  /// Throws ShapeError where the channels are not a multiple of groups, or a size makes no sense.
  Conv2d(int64_t in_channels, int64_t out_channels, Options options);

  /// [n, in, h, w] to [n, out, h', w'], channels-last.
  Tensor forward(const Tensor& x) override;
  /// Draws the weights anew: uniform in ±1/sqrt(fan in), weight first, then bias.
  void reset_parameters();
  std::string extra_repr() const override;

  const Options options;
  Tensor weight;  // [out, in / groups, kh, kw], channels-last
  Tensor bias;    // [out], or undefined
};

}  // namespace tandem::nn
