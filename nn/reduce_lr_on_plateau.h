/// Rates that fall when a metric stops improving (torch.optim.lr_scheduler.ReduceLROnPlateau).
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

class TANDEM_API ReduceLROnPlateau {
 public:
  enum class Mode : uint8_t { min, max };
  enum class ThresholdMode : uint8_t { rel, abs };
  struct Options {
    Mode mode = Mode::min;  // whether the metric is to fall or to rise
    double factor = 0.1;
    int64_t patience = 10;  // epochs without improvement that are let pass
    double threshold = 1e-4;
    ThresholdMode threshold_mode = ThresholdMode::rel;  // threshold is a share of the best metric, or a difference
    int64_t cooldown = 0;                               // epochs after a reduction in which nothing is counted
    PerGroup min_lr = 0;
    double eps = 1e-8;  // smaller changes of a rate are not made
  };
  explicit ReduceLROnPlateau(Optimizer& optimizer) : ReduceLROnPlateau(optimizer, Options()) {}
  /// Throws Error unless factor < 1. The optimizer must outlive the schedule.
  ReduceLROnPlateau(Optimizer& optimizer, Options options);

  /// To be called with the metric after each epoch.
  void step(double metric);
  std::vector<double> get_last_lr() const;
  NamedNumbers state_dict() const;
  /// Throws Error listing the names that are missing or unexpected. The rates are the optimizer's state.
  void load_state_dict(const NamedNumbers& state);

 private:
  bool improves(double metric) const;
  Optimizer* optimizer_;
  const Options options_;
  std::vector<double> min_lrs_;
  double best_;
  int64_t bad_epochs_ = 0, cooldown_left_ = 0, last_epoch_ = 0;
};

}  // namespace tandem::nn
