/// BucketWatch: a hook of DistributedDataParallel that all-reduces as usual, notes when each bucket was complete, and
/// may add a delay: a bucket then counts as under way for that much longer, one bucket after the other, as on a slower
/// wire. It takes no core from the computation.
#pragma once
#include <tandem/parallel/grad_bucket.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::bench {

class BucketWatch final : public CommHook {
 public:
  struct Seen {
    size_t bytes = 0;
    int64_t ready_ns = 0;
  };
  BucketWatch(double delay_ms, int rank) : delay_ms_(delay_ms), rank_(rank) {}
  ~BucketWatch() override;
  Work start(GradBucket& bucket, Communicator& communicator) override;
  /// Of the last backward, in order. Not while one is under way.
  const std::vector<Seen>& seen() const { return seen_; }

 private:
  struct Delayed {
    Work reduced;
    std::shared_ptr<WorkState> state;
    std::string label;
  };
  void wire();

  const double delay_ms_;
  const int rank_;
  std::vector<Seen> seen_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Delayed> queue_;
  bool stop_ = false;
  std::thread wire_;  // where there is a delay
};

}  // namespace tandem::bench
