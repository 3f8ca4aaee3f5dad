/// Not installed. Ranks as threads of one process: how they find each other, and how their bytes move. Values are read
/// straight out of the other ranks' tensors, and written by their owner alone.
#pragma once
#include <tandem/parallel/membership.h>
#include <tandem/parallel/transport.h>

#include <condition_variable>

namespace tandem {

class ThreadMembership;
struct ThreadHub;

/// What the threads of a group share.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : size_(size) {}
  int size() const { return size_; }

  /// The meeting place of a channel's members: the same one for all who ask while one of them holds it.
  std::shared_ptr<ThreadHub> hub(const Channel& channel);
  void join(ThreadMembership* member);
  void leave(ThreadMembership* member, const std::string& reason);
  void tell_all(int culprit, const std::string& why);
  std::vector<Progress> progress(const Channel& channel) const;

 private:
  const int size_;
  mutable std::mutex mutex_;
  std::map<int, ThreadMembership*> members_;
  std::map<std::string, std::weak_ptr<ThreadHub>> hubs_;
};

class ThreadMembership final : public Membership {
 public:
  ThreadMembership(std::shared_ptr<ThreadGroup> group, int rank, std::chrono::milliseconds timeout);
  ~ThreadMembership() override;
  void leave(const std::string& reason) override { reason_ = reason; }  // said at the end

  std::unique_ptr<Transport> connect(const std::shared_ptr<Channel>& channel) override;
  void expired(const Channel& channel, const std::string& what) override;

  using Membership::channels;
  using Membership::completed;

 private:
  void tell_all(int culprit, const std::string& why) override { group_->tell_all(culprit, why); }
  const std::shared_ptr<ThreadGroup> group_;
  std::string reason_;
};

}  // namespace tandem
