/// Dropout as a layer (torch.nn.Dropout): in training each element is zeroed with probability p and the rest scaled up;
/// in evaluation nothing happens.
#pragma once
#include <tandem/nn/module.h>

namespace tandem::nn {

struct TANDEM_API Dropout : Module {
  /// Throws Error for p outside [0, 1].
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  Tensor consume(Tensor x) override;
  std::string extra_repr() const override;
  const double p;
};

}  // namespace tandem::nn
