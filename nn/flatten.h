/// Layers that only reshape: Flatten and Identity.
#pragma once
#include <tandem/nn/module.h>

namespace tandem::nn {

/// One dimension from several (torch.nn.Flatten); by default all but the batch's.
struct TANDEM_API Flatten : Module {
  explicit Flatten(int start_dim = 1, int end_dim = -1) : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  const int start_dim, end_dim;
};

/// What goes in comes out (torch.nn.Identity).
struct TANDEM_API Identity : Module {
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace tandem::nn
