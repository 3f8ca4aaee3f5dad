/// Not installed.
/// The threads of a wrapper's replicas, and work that all of them do at once: under a deadline, errors named by replica
/// and device.
#pragma once
#include <tandem/parallel/replica_worker.h>

#include <vector>

namespace tandem {

class TANDEM_API ReplicaPool {
 public:
  ReplicaPool(const std::vector<Device>& devices, int threads, std::chrono::milliseconds timeout);
  ~ReplicaPool();
  ReplicaPool(const ReplicaPool&) = delete;
  ReplicaPool& operator=(const ReplicaPool&) = delete;

  std::vector<const Replica*> replicas() const;
  /// task(r) on the threads of replicas 0 to count - 1; returns when all have ended. The first replica's error is
  /// thrown with its type, its own message behind the replica's name, and nested. Throws CommError where one misses the
  /// deadline; from then on, every call does. Tasks must own what they use: one that is late goes on by itself.
  void run(int count, const char* what, const std::function<void(int)>& task);
  /// Throws the CommError of a deadline that was missed.
  void require_usable() const;
  bool usable() const { return broken_.empty(); }

 private:
  const std::chrono::milliseconds timeout_;
  std::vector<std::shared_ptr<ReplicaWorker>> workers_;
  std::string broken_;  // what made this unusable
};

}  // namespace tandem
