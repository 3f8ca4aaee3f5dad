#include <tandem/parallel/fnv1a.h>
#include <tandem/parallel/membership.h>
#include <tandem/parallel/report_failure.h>

#include <algorithm>
#include <thread>

namespace tandem {
namespace {

// How long a verdict may take: of a death, whose trace a member has met; and one that was asked for at a deadline.
constexpr std::chrono::milliseconds kVerdictGrace{2000}, kAnswerGrace{4000};
// How long the store takes to say that a member is silent, where it is.
constexpr std::chrono::milliseconds kSilenceGrace{800};

}  // namespace

std::shared_ptr<Channel> Membership::open(std::string name, std::vector<int> members) {
  auto c = std::make_shared<Channel>();
  c->id = fnv1a(name);
  c->name = std::move(name);
  c->members = std::move(members);
  c->rank = int(std::find(c->members.begin(), c->members.end(), rank_) - c->members.begin());
  std::lock_guard lock(mutex_);
  channels_.push_back(c);
  return c;
}

std::vector<std::shared_ptr<Channel>> Membership::channels() const {
  std::lock_guard lock(mutex_);
  return channels_;
}

CompletedByChannel Membership::completed() const {
  CompletedByChannel all;
  for (auto& c : channels())
    if (!c->connecting) all[c->id] = c->completed();
  return all;
}

std::pair<int, std::string> Membership::verdict() const {
  std::lock_guard lock(mutex_);
  return {culprit_, verdict_};
}

void Membership::throw_verdict(const std::string& in) const {
  const auto [culprit, why] = verdict();
  throw CommError(why.find(in) == std::string::npos ? message(why, "; this rank was in ", in) : why, culprit);
}

void Membership::fail(int culprit, const std::string& why) {
  std::map<int, std::function<void()>> wakes;
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    verdict_ = why;
    culprit_ = culprit;
    on_verdict(culprit, why);
    failed_.store(true, std::memory_order_release);
    wakes = wakes_;
  }
  for (auto& [id, wake] : wakes) wake();
}

void Membership::on_verdict(int, const std::string&) {}

void Membership::report(int culprit, const std::string& why) {
  if (failed()) {
    const auto [first, cause] = verdict();
    tell_all(first, cause);
  } else {
    tell_all(culprit, why);
  }
}

void Membership::tell_failure(const Channel& channel, const CommError& error) {
  if (!told_.exchange(true)) report_failure(rank_, error.what(), channel, channels());
}

int Membership::on_failure(std::function<void()> wake) {
  std::unique_lock lock(mutex_);
  const int id = next_wake_++;
  auto& kept = wakes_[id] = std::move(wake);
  if (failed_.load(std::memory_order_relaxed)) {
    auto now = kept;
    lock.unlock();
    now();
  }
  return id;
}

void Membership::remove_on_failure(int id) {
  std::lock_guard lock(mutex_);
  wakes_.erase(id);
}

void Membership::left(int member, CompletedByChannel completed, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    departed_.push_back({member, std::move(completed), reason});
  }
  for (auto& c : channels()) look_for_absent(*c);
}

void Membership::look_for_absent(const Channel& channel) {
  if (auto missing = absence(channel)) fail(missing->first, missing->second);
}

std::optional<std::pair<int, std::string>> Membership::absence(const Channel& channel) const {
  const Need need = channel.need();
  if (need.of == Need::Of::nobody && !channel.connecting) return std::nullopt;
  std::lock_guard lock(mutex_);
  for (const Departure& d : departed_) {
    const auto at = std::find(channel.members.begin(), channel.members.end(), d.member);
    if (at == channel.members.end()) continue;
    const std::string gone =
        message("rank ", d.member, " has left the group", d.reason.empty() ? "" : ": ", d.reason, "; ");
    const auto it = d.completed.find(channel.id);
    if (channel.connecting) {
      if (it != d.completed.end()) continue;
      return std::pair(d.member, message(gone, "it was not connected to ", channel.name, " yet"));
    }
    const bool pair = need.partner >= 0;
    if (pair && at - channel.members.begin() != need.partner) continue;
    const Completed had = it == d.completed.end() ? Completed{} : it->second;
    if (had.covers(need, channel.rank)) continue;
    if (!pair)
      return std::pair(d.member, message(gone, "its last collective in ", channel.name, " was number ", had.collectives,
                                         ", rank ", rank_, " is at ", need.number));
    return std::pair(d.member,
                     message(gone, "it had no part in number ", need.number, " of what rank ", rank_,
                             need.of == Need::Of::receiver ? " sends it in " : " receives from it in ", channel.name));
  }
  return std::nullopt;
}

std::vector<int> laggards(const std::vector<Progress>& of_members) {
  auto less = [](const Progress& a, const Progress& b) {
    return std::pair(a.sequence, a.steps) < std::pair(b.sequence, b.steps);
  };
  const auto [least, most] = std::minmax_element(of_members.begin(), of_members.end(), less);
  std::vector<int> behind;
  if (least == of_members.end() || !less(*least, *most)) return behind;
  for (size_t i = 0; i < of_members.size(); ++i)
    if (!less(*least, of_members[i])) behind.push_back(int(i));
  return behind;
}

Blame blame_for_delay(const std::string& what, const std::vector<int>& members, const std::vector<Progress>& progress) {
  Blame b{-1, message("[", what, "]")};
  std::string where;
  for (size_t i = 0; i < members.size(); ++i)
    where +=
        message(i ? ", " : "", "rank ", members[i], " at number ", progress[i].sequence, " step ", progress[i].steps);
  const std::vector<int> behind = laggards(progress);
  if (behind.empty()) {
    b.why += message(" all ranks are equally far, and nobody is to blame: ", where);
    return b;
  }
  b.culprit = members[size_t(behind[0])];
  for (size_t i = 0; i < behind.size(); ++i) b.why += message(i ? ", " : " rank ", members[size_t(behind[i])]);
  b.why += message(behind.size() > 1 ? " lag" : " lags", " behind: ", where);
  return b;
}

// "number 7, all_reduce of 100 f32 (sum) 'bucket 3'"; before the first collective the label alone.
std::string Wait::here() const {
  if (header_.sequence == 0) return label_;
  return message(header_, label_.empty() ? "" : " '", label_, label_.empty() ? "" : "'");
}

std::string Wait::what() const { return message(here(), ", after ", double(timeout_.count()) / 1000, " s"); }

void Wait::check() {
  if (membership_.failed()) membership_.throw_verdict(here());
  check_deadline();
}

void Wait::check_deadline() {
  const auto now = Clock::now();
  if (now < deadline_) return;
  if (patient_) {
    deadline_ = now + timeout_;
    membership_.require_alive(channel_, what());
  } else if (asked_ == Clock::time_point{}) {
    asked_ = now;
    membership_.expired(channel_, what());
  } else if (now - asked_ > kAnswerGrace) {
    membership_.fail(-1, message("[", what(), "] the deadline has passed, and there is no verdict on who is to blame"));
  }
  if (membership_.failed()) membership_.throw_verdict(here());
}

std::chrono::milliseconds Wait::nap() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::clamp(left, std::chrono::milliseconds(1),
                    std::chrono::milliseconds(asked_ == Clock::time_point{} ? 1000 : 20));
}

void Wait::require_match(int member, const Header& theirs) {
  if (same_collective(header_, theirs)) [[likely]]
    return;
  const int other = channel_.members[size_t(member)];
  membership_.report(-1, message("the ranks ask for different collectives in ", channel_.name, ": rank ",
                                 membership_.rank(), " for ", header_, ", rank ", other, " for ", theirs));
  membership_.check(here());
  throw CommError(message("the ranks ask for different collectives: ", header_, " and ", theirs));
}

void Wait::await_verdict(std::chrono::milliseconds grace) const {
  const auto until = Clock::now() + grace;
  while (!membership_.failed() && membership_.has_judge() && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// The end of a connection may have a cause elsewhere, which the verdict knows.
void Wait::broken(int member, const std::string& how) {
  const int me = membership_.rank(), other = channel_.members[size_t(member)];
  await_verdict(kVerdictGrace);
  if (!membership_.failed() && membership_.has_judge()) {
    // A large process takes its time to die, but it is silent meanwhile.
    membership_.require_alive(channel_, here());
    await_verdict(kSilenceGrace);
  }
  if (!membership_.has_judge())
    membership_.fail(other, message("[", here(), "] rank ", other, " has ended: its connection to rank ", me,
                                    " broke (", how, "), and rank 0, whose store could tell more, has left"));
  membership_.report(-1, message("[", here(), "] the connection between ranks ", me, " and ", other, " broke (", how,
                                 "); both are alive"));
  membership_.throw_verdict(here());
}

void Wait::broken_device(const std::string& what) {
  await_verdict(kVerdictGrace);
  membership_.report(-1, message("[", here(), "] failed on rank ", membership_.rank(), "'s device: ", what));
  membership_.throw_verdict(here());
}

void Wait::withdrawn() {
  await_verdict(kVerdictGrace);
  membership_.report(-1, message("[", here(), "] a rank has withdrawn without saying why"));
  membership_.throw_verdict(here());
}

}  // namespace tandem
