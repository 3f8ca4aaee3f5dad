#include <tandem/parallel/thread_group.h>
#include <tandem/parallel/thread_transport.h>

namespace tandem {

std::shared_ptr<ThreadHub> ThreadGroup::hub(const Channel& channel) {
  std::lock_guard lock(mutex_);
  auto& known = hubs_[channel.name];
  auto hub = known.lock();
  if (!hub) {
    hub = std::make_shared<ThreadHub>(channel.members.size());
    known = hub;
  }
  return hub;
}

void ThreadGroup::join(ThreadMembership* member) {
  std::lock_guard lock(mutex_);
  members_[member->rank()] = member;
}

void ThreadGroup::leave(ThreadMembership* member, const std::string& reason) {
  const CompletedByChannel completed = member->completed();
  std::lock_guard lock(mutex_);
  members_.erase(member->rank());
  for (auto& [rank, other] : members_) other->left(member->rank(), completed, reason);
}

void ThreadGroup::tell_all(int culprit, const std::string& why) {
  std::lock_guard lock(mutex_);
  for (auto& [rank, member] : members_) member->fail(culprit, why);
}

std::vector<Progress> ThreadGroup::progress(const Channel& channel) const {
  std::vector<Progress> all(channel.members.size());
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < all.size(); ++i) {
    auto it = members_.find(channel.members[i]);
    if (it == members_.end()) continue;
    for (auto& c : it->second->channels())
      if (c->id == channel.id) all[i] = {c->sequence.load(), c->steps.load()};
  }
  return all;
}

ThreadMembership::ThreadMembership(std::shared_ptr<ThreadGroup> group, int rank, std::chrono::milliseconds timeout)
    : Membership(rank, group->size(), timeout), group_(std::move(group)) {
  group_->join(this);
}

ThreadMembership::~ThreadMembership() { group_->leave(this, reason_); }

std::unique_ptr<Transport> ThreadMembership::connect(const std::shared_ptr<Channel>& channel) {
  return std::make_unique<ThreadTransport>(*this, *channel, group_->hub(*channel));
}

void ThreadMembership::expired(const Channel& channel, const std::string& what) {
  const Blame b = blame_for_delay(what, channel.members, group_->progress(channel));
  group_->tell_all(b.culprit, b.why);
}

}  // namespace tandem
