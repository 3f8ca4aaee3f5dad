#include <tandem/nn/sequential_lr.h>

#include <algorithm>

namespace tandem::nn {

SequentialLR::SequentialLR(Optimizer& o, std::vector<LRScheduler*> schedulers, std::vector<int64_t> milestones)
    : LRScheduler(o), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  check(!schedulers_.empty() && milestones_.size() + 1 == schedulers_.size(), "[SequentialLR] ", milestones_.size(),
        " milestones for ", schedulers_.size(), " schedules, one less is wanted");
  check(std::is_sorted(milestones_.begin(), milestones_.end(), std::less_equal<>()) &&
            (milestones_.empty() || milestones_[0] > 0),
        "[SequentialLR] the milestones do not rise from 1 on");
  for (LRScheduler* s : schedulers_)
    check(s && &s->optimizer() == &o, "[SequentialLR] a schedule is for another optimizer");
  restart();
}

void SequentialLR::restart() {
  schedulers_[0]->restart();
  go_to(0);
}

void SequentialLR::step() {
  const int64_t epoch = last_epoch() + 1;
  const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), epoch) - milestones_.begin();
  LRScheduler& now = *schedulers_[size_t(passed)];
  if (passed > 0 && milestones_[size_t(passed - 1)] == epoch)
    now.restart();
  else
    now.step();
  go_to(epoch);
}

NamedNumbers SequentialLR::state_dict() const {
  NamedNumbers state = LRScheduler::state_dict();
  for (size_t i = 0; i < schedulers_.size(); ++i)
    for (auto& [name, value] : schedulers_[i]->state_dict()) state.emplace_back(message(i, '.', name), value);
  return state;
}

void SequentialLR::load_state_dict(const NamedNumbers& state) {
  NamedNumbers own;
  std::vector<NamedNumbers> theirs(schedulers_.size());
  for (auto& [name, value] : state) {
    NamedNumbers* to = &own;
    std::string rest = name;
    for (size_t i = 0; i < theirs.size(); ++i)
      if (const std::string prefix = message(i, '.'); name.starts_with(prefix)) {
        to = &theirs[i];
        rest = name.substr(prefix.size());
      }
    to->emplace_back(std::move(rest), value);
  }
  require_own_type(own);
  for (size_t i = 0; i < theirs.size(); ++i) schedulers_[i]->load_state_dict(theirs[i]);
  LRScheduler::load_state_dict(own);
}

}  // namespace tandem::nn
