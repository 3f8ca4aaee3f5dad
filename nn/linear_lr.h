/// Warm-ups: a factor that grows along a line (LinearLR), or stays and then ends (ConstantLR).
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

/// torch.optim.lr_scheduler.LinearLR: the rate times a factor that goes from start_factor to end_factor in total_iters
/// epochs.
class TANDEM_API LinearLR final : public LRScheduler {
 public:
  struct Options {
    double start_factor = 1. / 3;
    double end_factor = 1;
    int64_t total_iters = 5;
  };
  explicit LinearLR(Optimizer& optimizer) : LinearLR(optimizer, Options()) {}
  /// Throws Error unless 0 < start_factor <= 1, 0 <= end_factor <= 1 and total_iters > 0.
  LinearLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(size_t group, double lr) const override;
  const Options options_;
};

/// torch.optim.lr_scheduler.ConstantLR: the rate times factor, for total_iters epochs.
class TANDEM_API ConstantLR final : public LRScheduler {
 public:
  struct Options {
    double factor = 1. / 3;
    int64_t total_iters = 5;
  };
  explicit ConstantLR(Optimizer& optimizer) : ConstantLR(optimizer, Options()) {}
  /// Throws Error unless 0 < factor <= 1.
  ConstantLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(size_t group, double lr) const override;
  const Options options_;
};

}  // namespace tandem::nn
