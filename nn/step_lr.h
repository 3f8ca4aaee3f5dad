/// Rates that fall by a factor: every so many epochs (StepLR), at given epochs (MultiStepLR), at each (ExponentialLR).
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

/// torch.optim.lr_scheduler.StepLR: times gamma every step_size epochs.
class TANDEM_API StepLR final : public LRScheduler {
 public:
  struct Options {
    int64_t step_size = 0;
    double gamma = 0.1;
  };
  /// Throws Error unless step_size is positive.
  StepLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(size_t group, double lr) const override;
  const Options options_;
};

/// torch.optim.lr_scheduler.MultiStepLR: times gamma at each milestone (an epoch that is named twice counts twice).
class TANDEM_API MultiStepLR final : public LRScheduler {
 public:
  struct Options {
    std::vector<int64_t> milestones = {};
    double gamma = 0.1;
  };
  MultiStepLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(size_t group, double lr) const override;
  const Options options_;
};

/// torch.optim.lr_scheduler.ExponentialLR: times gamma at each epoch.
class TANDEM_API ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double next_lr(size_t group, double lr) const override;
  const double gamma_;
};

}  // namespace tandem::nn
