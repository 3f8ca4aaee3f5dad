/// Not installed.
/// A replica's thread: it does one task after the other for as long as its wrapper lives, so that what belongs to a
/// thread (its team, its CPU plans) is made once. A task runs in the context of whoever posted it, with replica, device
/// and threads of the worker's own.
#pragma once
#include <tandem/core/context.h>
#include <tandem/core/replica.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tandem {

class TANDEM_API ReplicaWorker : public std::enable_shared_from_this<ReplicaWorker> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `threads`: what the replica's ops use.
  static std::shared_ptr<ReplicaWorker> start(Replica replica, int threads);
  ReplicaWorker(Replica replica, int threads) : replica_(replica), threads_(threads) {}

  /// Its address is the replica's name: twins are kept by it.
  const Replica& replica() const { return replica_; }

  /// Starts the task; the one before must have ended.
  void post(std::function<void()> task);
  /// Whether the task has ended by then. What it captured is gone by the time it has.
  bool wait_until(Clock::time_point deadline);
  /// What the task that has ended threw, once; null where it did not.
  std::exception_ptr take_error() { return std::exchange(error_, nullptr); }
  /// Ends the thread and waits for it. One that is still at its task is left to finish it by itself; it holds the
  /// worker and what the task captured.
  void stop();

 private:
  void run();
  void run_task();

  const Replica replica_;
  const int threads_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, stopped_ = false;
  std::function<void()> task_;
  Context context_;  // of whoever posted the task
  std::exception_ptr error_;
};

}  // namespace tandem
