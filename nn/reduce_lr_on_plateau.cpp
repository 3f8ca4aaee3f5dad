#include <tandem/nn/reduce_lr_on_plateau.h>

#include <algorithm>
#include <limits>
#include <map>

namespace tandem::nn {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, Options o)
    : optimizer_(&optimizer),
      options_(o),
      min_lrs_(o.min_lr.for_groups("ReduceLROnPlateau", optimizer.param_groups().size())),
      best_(o.mode == Mode::min ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()) {
  check(o.factor < 1, "[ReduceLROnPlateau] factor is ", o.factor, ", and has to be below 1");
}

bool ReduceLROnPlateau::improves(double metric) const {
  const bool min = options_.mode == Mode::min;
  const double by = min ? -options_.threshold : options_.threshold;
  const double bound = options_.threshold_mode == ThresholdMode::rel ? best_ * (1 + by) : best_ + by;
  return min ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  if (improves(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ <= options_.patience) return;
  auto groups = optimizer_->param_groups();
  for (size_t i = 0; i < min_lrs_.size(); ++i) {
    const double lr = std::max(groups[i].lr * options_.factor, min_lrs_[i]);
    if (groups[i].lr - lr > options_.eps) groups[i].lr = lr;
  }
  cooldown_left_ = options_.cooldown;
  bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> lrs;
  for (ParamGroup& g : optimizer_->param_groups()) lrs.push_back(g.lr);
  return lrs;
}

NamedNumbers ReduceLROnPlateau::state_dict() const {
  return {{"best", best_},
          {"num_bad_epochs", double(bad_epochs_)},
          {"cooldown_counter", double(cooldown_left_)},
          {"last_epoch", double(last_epoch_)}};
}

void ReduceLROnPlateau::load_state_dict(const NamedNumbers& state) {
  auto values = detail::same_names(state, state_dict());
  const int64_t bad_epochs = detail::whole_number(values, "num_bad_epochs"),
                cooldown_left = detail::whole_number(values, "cooldown_counter");
  last_epoch_ = detail::whole_number(values, "last_epoch");
  best_ = values["best"];
  bad_epochs_ = bad_epochs;
  cooldown_left_ = cooldown_left;
}

}  // namespace tandem::nn
