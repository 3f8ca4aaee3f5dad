/// Activations as layers. Each calls the function of its name in ops/; where that can, a temporary is written over.
#pragma once
#include <tandem/nn/module.h>

namespace tandem::nn {

/// torch.nn.ReLU: max(x, 0)
struct TANDEM_API ReLU : Module {
  Tensor forward(const Tensor& x) override;
  Tensor consume(Tensor x) override;
};

/// torch.nn.LeakyReLU: x where positive, else negative_slope * x
struct TANDEM_API LeakyReLU : Module {
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope(negative_slope) {}
  Tensor forward(const Tensor& x) override;
  Tensor consume(Tensor x) override;
  std::string extra_repr() const override;
  const double negative_slope;
};

/// torch.nn.Sigmoid
struct TANDEM_API Sigmoid : Module {
  Tensor forward(const Tensor& x) override;
  Tensor consume(Tensor x) override;
};

/// torch.nn.Tanh
struct TANDEM_API Tanh : Module {
  Tensor forward(const Tensor& x) override;
  Tensor consume(Tensor x) override;
};

/// torch.nn.SiLU: x * sigmoid(x)
struct TANDEM_API SiLU : Module {
  Tensor forward(const Tensor& x) override;
};

/// torch.nn.GELU; `approximate` is "none" or "tanh", anything else is an Error of forward.
struct TANDEM_API GELU : Module {
  explicit GELU(std::string approximate = "none") : approximate(std::move(approximate)) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const std::string approximate;
};

/// torch.nn.Softmax along one dimension
struct TANDEM_API Softmax : Module {
  explicit Softmax(int dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const int dim;
};

/// torch.nn.LogSoftmax along one dimension
struct TANDEM_API LogSoftmax : Module {
  explicit LogSoftmax(int dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const int dim;
};

}  // namespace tandem::nn
