/// Rates along half a cosine (torch.optim.lr_scheduler.CosineAnnealingLR).
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

/// From the rate at the start down to eta_min in T_max epochs; beyond them it climbs again.
class TANDEM_API CosineAnnealingLR final : public LRScheduler {
 public:
  struct Options {
    int64_t T_max = 0;
    double eta_min = 0;
  };
  /// Throws Error unless T_max is positive.
  CosineAnnealingLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(size_t group, double lr) const override;
  const Options options_;
};

}  // namespace tandem::nn
