/// The one-cycle policy (torch.optim.lr_scheduler.OneCycleLR): rates up and down once, momentum the other way.
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

/// From max_lr / div_factor up to max_lr in the first pct_start of the steps, then down to the first rate /
/// final_div_factor; with three_phase down to the first rate as fast as up, and from there on. Counts steps, not
/// epochs.
class TANDEM_API OneCycleLR final : public LRScheduler {
 public:
  enum class Anneal : uint8_t { cos, linear };
  struct Options {
    PerGroup max_lr;
    int64_t total_steps = 0;  // or epochs * steps_per_epoch
    int64_t epochs = 0, steps_per_epoch = 0;
    double pct_start = 0.3;
    Anneal anneal_strategy = Anneal::cos;
    bool cycle_momentum = true;
    PerGroup base_momentum = 0.85, max_momentum = 0.95;
    double div_factor = 25, final_div_factor = 1e4;
    bool three_phase = false;
  };
  /// Throws Error where there is no positive number of steps, pct_start lies outside [0, 1], or cycle_momentum is on
  /// and the optimizer has no momentum.
  OneCycleLR(Optimizer& optimizer, Options options);
  /// Throws Error beyond total_steps.
  void step() override;

 private:
  struct Phase {
    double end_step;
    double from_lr, to_lr, from_momentum, to_momentum;
  };
  std::vector<Phase> phases_of(size_t group) const;
  /// Where the current step lies: its phase, and how far into it (0 to 1).
  std::pair<size_t, double> position(const std::vector<Phase>& phases) const;
  double anneal(double from, double to, double done) const;
  double next_lr(size_t group, double lr) const override;
  void set_others() override;

  const Options options_;
  int64_t total_steps_ = 0;
  std::vector<double> max_lrs_, base_momenta_, max_momenta_;
};

}  // namespace tandem::nn
