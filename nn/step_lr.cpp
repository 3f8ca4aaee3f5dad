#include <tandem/nn/step_lr.h>

#include <algorithm>
#include <cmath>

namespace tandem::nn {

StepLR::StepLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(options) {
  check(options.step_size > 0, "[StepLR] step_size is ", options.step_size, ", and has to be positive");
  begin();
}
double StepLR::next_lr(size_t, double lr) const {
  return last_epoch() > 0 && last_epoch() % options_.step_size == 0 ? lr * options_.gamma : lr;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(std::move(options)) {
  begin();
}
double MultiStepLR::next_lr(size_t, double lr) const {
  const auto times = std::count(options_.milestones.begin(), options_.milestones.end(), last_epoch());
  return times ? lr * std::pow(options_.gamma, double(times)) : lr;
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) { begin(); }
double ExponentialLR::next_lr(size_t, double lr) const { return last_epoch() > 0 ? lr * gamma_ : lr; }

}  // namespace tandem::nn
