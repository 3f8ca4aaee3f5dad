#include "apps/bench/bucket_watch.h"

#include "apps/bench/recorder.h"

#include <tandem/tandem.h>

namespace tandem::bench {

BucketWatch::~BucketWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (wire_.joinable()) wire_.join();
}

Work BucketWatch::start(GradBucket& b, Communicator& c) {
  if (b.index == 0) seen_.clear();
  const int64_t now = now_ns();
  seen_.push_back({size_t(b.flat.numel()) * size_of(b.flat.dtype()), now});
  Recorder::add({message("rank ", rank_), Recorder::this_thread(), "ready", "ready", b.label, now, now, 0});
  Work reduced = c.all_reduce_async(b.flat, {.premultiply = b.weight, .label = b.label});
  if (delay_ms_ <= 0) return reduced;
  auto state = std::make_shared<WorkState>();
  std::lock_guard lock(mutex_);
  queue_.push_back({std::move(reduced), state, b.label});
  if (!wire_.joinable()) wire_ = std::thread([this] { wire(); });
  changed_.notify_all();
  return Work(state);
}

void BucketWatch::wire() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Delayed d = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      d.reduced.wait();
      const int64_t begin = now_ns();
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay_ms_));
      Recorder::add({message("rank ", rank_), Recorder::this_thread(), "delay", "delay", d.label, begin, now_ns(), 0});
    } catch (...) {
      error = std::current_exception();
    }
    d.state->finish(error);
    lock.lock();
  }
}

}  // namespace tandem::bench
