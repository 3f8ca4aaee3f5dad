/// What learning rate schedules share (torch.optim.lr_scheduler). A schedule is made for an optimizer, sets its groups'
/// rates as it is made, and again at each step(), which is to come after the optimizer's. Rates are computed from the
/// ones before, as PyTorch does, so that schedules can be chained and a rate changed by hand carries on.
#pragma once
#include <tandem/nn/optimizer.h>

#include <map>

namespace tandem::nn {

/// A schedule's state: whole numbers and rates by name.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// One number for all groups, or one for each: `.max_lr = 0.1`, `.max_lr = {0.1, 0.01}`.
class PerGroup {
 public:
  PerGroup(double all) : values_{all} {}                            // NOLINT: implicit, as a number is meant
  PerGroup(std::initializer_list<double> each) : values_(each) {}   // NOLINT
  PerGroup(std::vector<double> each) : values_(std::move(each)) {}  // NOLINT
  /// Throws Error naming `what` unless there is one number or `groups` of them.
  TANDEM_API std::vector<double> for_groups(const char* what, size_t groups) const;

 private:
  std::vector<double> values_;
};

namespace detail {
/// `given` by name, once it has the names that `own` has. Throws Error listing those missing and unexpected.
std::map<std::string, double> same_names(const NamedNumbers& given, const NamedNumbers& own);
/// The number of that name, of epochs or the like. Throws Error where it is no whole number that a double holds.
int64_t whole_number(const std::map<std::string, double>& values, const char* name);
}  // namespace detail

class TANDEM_API LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;

  /// Sets the rates for the next step (or epoch: whatever the schedule counts).
  virtual void step();
  /// The rates it last set.
  const std::vector<double>& get_last_lr() const { return last_lrs_; }
  int64_t last_epoch() const { return last_epoch_; }

  /// The numbers, and the class's name as the name of one more: "type.StepLR".
  virtual NamedNumbers state_dict() const;
  /// Takes a state of the same kind of schedule and sets the rates as they were. Throws Error naming both kinds where
  /// it is of another, and else listing the names that are missing or unexpected.
  virtual void load_state_dict(const NamedNumbers& state);

 protected:
  /// Notes the rates that the groups begin with. The optimizer must outlive the schedule.
  explicit LRScheduler(Optimizer& optimizer);
  /// The group's rate in epoch last_epoch(), from the one it has (`lr`) and the one it began with.
  virtual double next_lr(size_t group, double lr) const = 0;
  /// What else changes with the epoch.
  virtual void set_others() {}
  double base_lr(size_t group) const { return base_lrs_[group]; }
  Optimizer& optimizer() const { return *optimizer_; }
  size_t groups() const { return base_lrs_.size(); }
  /// Throws Error naming both where the state is of another kind of schedule.
  void require_own_type(const NamedNumbers& state) const;
  /// To be called at the end of the constructor: epoch 0.
  void begin() { go_to(0); }

 private:
  friend class SequentialLR;
  void go_to(int64_t epoch);
  /// Epoch 0 again, from the rates that the groups began with.
  virtual void restart();

  Optimizer* optimizer_;
  std::vector<double> base_lrs_, last_lrs_;
  int64_t last_epoch_ = -1;
};

}  // namespace tandem::nn
