/// Work: a collective under way.
#pragma once
#include <tandem/core/error.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace tandem {

/// What the two sides of a Work share.
class TANDEM_API WorkState {
 public:
  virtual ~WorkState() = default;
  void finish(std::exception_ptr error);
  virtual bool is_completed() const;
  virtual std::exception_ptr error() const;
  virtual void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool completed_ = false;
  std::exception_ptr error_;
};

/// A handle that can be copied; letting go of it does not end the work. One made by default is done.
class TANDEM_API Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  /// Returns when the collective is done; of one that devices carry out among themselves, when the calling thread's
  /// work on the device is ordered after it. Throws what it ended in: CommError at its deadline at the latest.
  void wait() const {
    if (state_) state_->wait();
  }
  bool is_completed() const { return !state_ || state_->is_completed(); }
  /// What it ended in; null while it runs and where all went well.
  std::exception_ptr error() const { return state_ ? state_->error() : nullptr; }

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace tandem
