#include <tandem/parallel/work.h>

namespace tandem {

void WorkState::finish(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  error_ = std::move(error);
  completed_ = true;
  changed_.notify_all();
}

bool WorkState::is_completed() const {
  std::lock_guard lock(mutex_);
  return completed_;
}

std::exception_ptr WorkState::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void WorkState::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_; });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace tandem
