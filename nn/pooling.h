/// Pooling layers over images [n, c, h, w].
#pragma once
#include <tandem/nn/module.h>
#include <tandem/ops/avg_pool2d.h>
#include <tandem/ops/max_pool2d.h>

namespace tandem::nn {

/// The largest value of each window (torch.nn.MaxPool2d).
struct TANDEM_API MaxPool2d : Module {
  using Options = MaxPool2dOptions;
  explicit MaxPool2d(Pair kernel_size, Options options = {}) : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const Pair kernel_size;
  const Options options;
};

/// The mean of each window (torch.nn.AvgPool2d).
struct TANDEM_API AvgPool2d : Module {
  using Options = AvgPool2dOptions;
  explicit AvgPool2d(Pair kernel_size, Options options = {}) : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const Pair kernel_size;
  const Options options;
};

/// Means over as many windows as the result has elements (torch.nn.AdaptiveAvgPool2d).
struct TANDEM_API AdaptiveAvgPool2d : Module {
  explicit AdaptiveAvgPool2d(Pair output_size) : output_size(output_size) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const Pair output_size;
};

}  // namespace tandem::nn
