#include <tandem/nn/one_cycle_lr.h>

#include <cmath>
#include <numbers>

namespace tandem::nn {
namespace {

// The rates that the groups have do not count: the cycle begins at its own, which are noted before the base is.
Optimizer& with_first_rates(Optimizer& optimizer, const OneCycleLR::Options& o) {
  auto groups = optimizer.param_groups();
  const auto max_lrs = o.max_lr.for_groups("OneCycleLR", groups.size());
  for (size_t i = 0; i < groups.size(); ++i) groups[i].initial_lr = max_lrs[i] / o.div_factor;
  return optimizer;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, Options o) : LRScheduler(with_first_rates(optimizer, o)), options_(o) {
  total_steps_ = o.total_steps ? o.total_steps : o.epochs * o.steps_per_epoch;
  check(total_steps_ > 0, "[OneCycleLR] total_steps, or epochs and steps_per_epoch, have to be positive: got ",
        o.total_steps, ", ", o.epochs, " and ", o.steps_per_epoch);
  check(o.pct_start >= 0 && o.pct_start <= 1, "[OneCycleLR] pct_start is ", o.pct_start, ", and has to lie in [0, 1]");
  max_lrs_ = o.max_lr.for_groups("OneCycleLR", groups());
  base_momenta_ = o.base_momentum.for_groups("OneCycleLR", groups());
  max_momenta_ = o.max_momentum.for_groups("OneCycleLR", groups());
  if (o.cycle_momentum)
    for (ParamGroup& g : optimizer.param_groups())
      check(g.cycled_momentum(), "[OneCycleLR] this optimizer has no momentum to cycle: cycle_momentum = false");
  begin();
}

void OneCycleLR::step() {
  check(last_epoch() < total_steps_, "[OneCycleLR] step ", last_epoch() + 1, " of ", total_steps_);
  LRScheduler::step();
}

std::vector<OneCycleLR::Phase> OneCycleLR::phases_of(size_t group) const {
  const double first = base_lr(group), max = max_lrs_[group], last = first / options_.final_div_factor;
  const double low = base_momenta_[group], high = max_momenta_[group];
  const double rise = options_.pct_start * double(total_steps_), end = double(total_steps_ - 1);
  if (!options_.three_phase) return {{rise - 1, first, max, high, low}, {end, max, last, low, high}};
  return {{rise - 1, first, max, high, low}, {2 * rise - 2, max, first, low, high}, {end, first, last, high, high}};
}

std::pair<size_t, double> OneCycleLR::position(const std::vector<Phase>& phases) const {
  const auto step = double(last_epoch());
  double start = 0;
  size_t i = 0;
  for (; i + 1 < phases.size() && step > phases[i].end_step; ++i) start = phases[i].end_step;
  return {i, (step - start) / (phases[i].end_step - start)};
}

double OneCycleLR::anneal(double from, double to, double done) const {
  if (options_.anneal_strategy == Anneal::linear) return (to - from) * done + from;
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * done) + 1);
}

double OneCycleLR::next_lr(size_t group, double) const {
  const auto phases = phases_of(group);
  const auto [i, done] = position(phases);
  return anneal(phases[i].from_lr, phases[i].to_lr, done);
}

void OneCycleLR::set_others() {
  if (!options_.cycle_momentum) return;
  auto list = optimizer().param_groups();
  for (size_t g = 0; g < groups(); ++g) {
    const auto phases = phases_of(g);
    const auto [i, done] = position(phases);
    *list[g].cycled_momentum() = anneal(phases[i].from_momentum, phases[i].to_momentum, done);
  }
}

}  // namespace tandem::nn
