#include <tandem/parallel/channel.h>

#include <utility>

namespace tandem {

bool Completed::covers(const Need& need, int of_member) const {
  if (need.of == Need::Of::nobody) return true;
  if (need.of == Need::Of::all) return collectives >= need.number;
  const auto with = transfers.find(of_member);
  if (with == transfers.end()) return false;
  return (need.of == Need::Of::receiver ? with->second.received : with->second.sent) >= need.number;
}

void Channel::start(const Need& need) {
  steps = 0;
  need_ = need;
}

uint64_t Channel::begin() {
  std::lock_guard lock(mutex_);
  start({Need::Of::all, ++sequence});
  return need_.number;
}

uint64_t Channel::begin(int partner, bool sends) {
  std::lock_guard lock(mutex_);
  const auto& with = completed_.transfers[partner];
  start({sends ? Need::Of::receiver : Need::Of::sender, (sends ? with.sent : with.received) + 1, partner});
  return need_.number;
}

void Channel::end(bool done) {
  std::lock_guard lock(mutex_);
  const Need was = std::exchange(need_, {});
  if (!done || was.of == Need::Of::nobody) return;
  if (was.of == Need::Of::all)
    completed_.collectives = was.number;
  else
    (was.of == Need::Of::receiver ? completed_.transfers[was.partner].sent
                                  : completed_.transfers[was.partner].received) = was.number;
}

Need Channel::need() const {
  std::lock_guard lock(mutex_);
  return need_;
}

Completed Channel::completed() const {
  std::lock_guard lock(mutex_);
  return completed_;
}

}  // namespace tandem
