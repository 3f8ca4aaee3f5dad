/// Not installed: threads that make batches ahead: jobs run side by side, their results are taken in the order of
/// submission.
#pragma once
#include <tandem/data/batch.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::data {

/// Submitting and taking is for one thread; how many results may wait is the submitter's to decide.
class OrderedWorkers {
 public:
  using Job = std::function<Batch()>;

  explicit OrderedWorkers(int threads);
  /// Lets jobs that run finish, starts no more.
  ~OrderedWorkers();
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void submit(Job job);
  /// The oldest job's result, waited for; throws what the job threw.
  Batch take();
  /// Jobs submitted and not taken.
  int64_t pending() const { return int64_t(in_order_.size()); }
  /// Forgets them; those that run finish unseen.
  void clear();

 private:
  struct Slot {
    Job job;
    bool done = false;
    Batch result;
    std::exception_ptr error;
  };
  using SlotPtr = std::shared_ptr<Slot>;
  void work();

  std::mutex m_;
  std::condition_variable to_do_, done_;
  std::deque<SlotPtr> waiting_;   // not started
  std::deque<SlotPtr> in_order_;  // not taken; the submitter's
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::data
