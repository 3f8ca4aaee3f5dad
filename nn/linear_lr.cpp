#include <tandem/nn/linear_lr.h>

namespace tandem::nn {

LinearLR::LinearLR(Optimizer& optimizer, Options o) : LRScheduler(optimizer), options_(o) {
  check(o.start_factor > 0 && o.start_factor <= 1, "[LinearLR] start_factor is ", o.start_factor,
        ", and has to lie in (0, 1]");
  check(o.end_factor >= 0 && o.end_factor <= 1, "[LinearLR] end_factor is ", o.end_factor,
        ", and has to lie in [0, 1]");
  check(o.total_iters > 0, "[LinearLR] total_iters is ", o.total_iters, ", and has to be positive");
  begin();
}
double LinearLR::next_lr(size_t, double lr) const {
  const auto& o = options_;
  if (last_epoch() == 0) return lr * o.start_factor;
  if (last_epoch() > o.total_iters) return lr;
  const double rise = o.end_factor - o.start_factor;
  return lr * (1 + rise / (double(o.total_iters) * o.start_factor + double(last_epoch() - 1) * rise));
}

ConstantLR::ConstantLR(Optimizer& optimizer, Options o) : LRScheduler(optimizer), options_(o) {
  check(o.factor > 0 && o.factor <= 1, "[ConstantLR] factor is ", o.factor, ", and has to lie in (0, 1]");
  begin();
}
double ConstantLR::next_lr(size_t, double lr) const {
  if (last_epoch() == 0) return lr * options_.factor;
  return last_epoch() == options_.total_iters ? lr * (1 / options_.factor) : lr;
}

}  // namespace tandem::nn
