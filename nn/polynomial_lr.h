/// Rates that fall to 0 along a power (torch.optim.lr_scheduler.PolynomialLR).
#pragma once
#include <tandem/nn/lr_scheduler.h>

namespace tandem::nn {

/// The rate at the start times (1 - epoch / total_iters)^power; 0 from total_iters on.
class TANDEM_API PolynomialLR final : public LRScheduler {
 public:
  struct Options {
    int64_t total_iters = 5;
    double power = 1;
  };
  explicit PolynomialLR(Optimizer& optimizer) : PolynomialLR(optimizer, Options()) {}
  /// Throws Error unless total_iters is positive.
  PolynomialLR(Optimizer& optimizer, Options options);

 private:
  double next_lr(size_t group, double lr) const override;
  const Options options_;
};

}  // namespace tandem::nn
