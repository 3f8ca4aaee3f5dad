#include <tandem/nn/cosine_annealing_lr.h>

#include <cmath>
#include <numbers>

namespace tandem::nn {

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, Options options)
    : LRScheduler(optimizer), options_(options) {
  check(options.T_max > 0, "[CosineAnnealingLR] T_max is ", options.T_max, ", and has to be positive");
  begin();
}

double CosineAnnealingLR::next_lr(size_t group, double lr) const {
  const auto t = last_epoch(), T = options_.T_max;
  const double low = options_.eta_min;
  if (t == 0) return lr;
  auto height = [&](int64_t at) { return 1 + std::cos(std::numbers::pi * double(at) / double(T)); };
  // Leaving the lowest point, where the ratio below would be 0 / 0.
  if ((t - 1 - T) % (2 * T) == 0) return lr + (base_lr(group) - low) * (1 - std::cos(std::numbers::pi / double(T))) / 2;
  return height(t) / height(t - 1) * (lr - low) + low;
}

}  // namespace tandem::nn
