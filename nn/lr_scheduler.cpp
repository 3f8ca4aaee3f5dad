#include <tandem/nn/lr_scheduler.h>
#include <tandem/nn/type_name.h>

#include <cmath>

namespace tandem::nn {
namespace {

constexpr std::string_view kType = "type.";

}  // namespace

std::vector<double> PerGroup::for_groups(const char* what, size_t groups) const {
  check(values_.size() == 1 || values_.size() == groups, "[", what, "] ", values_.size(), " numbers for ", groups,
        " groups");
  return values_.size() == groups ? values_ : std::vector<double>(groups, values_[0]);
}

std::map<std::string, double> detail::same_names(const NamedNumbers& given, const NamedNumbers& own) {
  std::map<std::string, double> values(given.begin(), given.end());
  const std::map<std::string, double> wanted(own.begin(), own.end());
  std::string problems;
  for (auto& [name, value] : wanted)
    if (!values.count(name)) problems += message("\n  missing: ", name);
  for (auto& [name, value] : values)
    if (!wanted.count(name)) problems += message("\n  unexpected: ", name);
  check(problems.empty(), "[load_state_dict] this state does not fit the schedule:", problems);
  return values;
}

int64_t detail::whole_number(const std::map<std::string, double>& values, const char* name) {
  const double v = values.at(name);
  check(std::abs(v) <= 0x1p53 && v == std::trunc(v), "[load_state_dict] ", name, " is ", v, ", not a whole number");
  return int64_t(v);
}

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (ParamGroup& g : optimizer.param_groups()) {
    if (!g.initial_lr) g.initial_lr = g.lr;
    base_lrs_.push_back(*g.initial_lr);
  }
  last_lrs_ = base_lrs_;
}

void LRScheduler::go_to(int64_t epoch) {
  last_epoch_ = epoch;
  auto groups = optimizer_->param_groups();
  for (size_t i = 0; i < base_lrs_.size(); ++i) groups[i].lr = last_lrs_[i] = next_lr(i, groups[i].lr);
  set_others();
}

void LRScheduler::step() { go_to(last_epoch_ + 1); }

void LRScheduler::restart() {
  auto groups = optimizer_->param_groups();
  for (size_t i = 0; i < base_lrs_.size(); ++i) groups[i].lr = base_lrs_[i];
  go_to(0);
}

NamedNumbers LRScheduler::state_dict() const {
  NamedNumbers state{{"last_epoch", double(last_epoch_)}};
  for (size_t i = 0; i < base_lrs_.size(); ++i) {
    state.emplace_back(message("base_lr.", i), base_lrs_[i]);
    state.emplace_back(message("last_lr.", i), last_lrs_[i]);
  }
  state.emplace_back(message(kType, detail::type_name(typeid(*this))), 1);
  return state;
}

void LRScheduler::require_own_type(const NamedNumbers& state) const {
  const std::string own = detail::type_name(typeid(*this));
  for (auto& [name, value] : state)
    if (name.starts_with(kType)) {
      const std::string theirs = name.substr(kType.size());
      check(theirs == own, "[load_state_dict] this is the state of a ", theirs, ", and the schedule is a ", own);
    }
}

void LRScheduler::load_state_dict(const NamedNumbers& state) {
  require_own_type(state);
  auto given = detail::same_names(state, LRScheduler::state_dict());
  last_epoch_ = detail::whole_number(given, "last_epoch");
  auto groups = optimizer_->param_groups();
  for (size_t i = 0; i < base_lrs_.size(); ++i) {
    base_lrs_[i] = given[message("base_lr.", i)];
    groups[i].lr = last_lrs_[i] = given[message("last_lr.", i)];
    groups[i].initial_lr = base_lrs_[i];
  }
  set_others();
}

}  // namespace tandem::nn
