/// Schedules one after the other (torch.optim.lr_scheduler.SequentialLR).
///
///     nn::LinearLR warmup{optimizer};
///     nn::CosineAnnealingLR cosine{optimizer, {.T_max = 95}};
///     nn::SequentialLR schedule{optimizer, {&warmup, &cosine}, {5}};
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

/// Schedule i is in force until the i-th milestone; the next one begins there from the rates of the start, as if it
/// were new. The schedules must outlive this one, and are stepped by it alone.
class TANDEM_API SequentialLR final : public LRScheduler {
 public:
  /// Throws Error unless all are for this optimizer, and there is one milestone less than there are schedules, rising.
  SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers, std::vector<int64_t> milestones);
  void step() override;
  /// With the schedules' own under "0.", "1.", ...
  NamedNumbers state_dict() const override;
  void load_state_dict(const NamedNumbers& state) override;

 private:
  /// What the schedule in force has set.
  double next_lr(size_t, double lr) const override { return lr; }
  void restart() override;
  const std::vector<LRScheduler*> schedulers_;
  const std::vector<int64_t> milestones_;
};

}  // namespace tandem::nn
