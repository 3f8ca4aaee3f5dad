#include <tandem/core/parallel_for.h>
#include <tandem/data/ordered_workers.h>

namespace tandem::data {

OrderedWorkers::OrderedWorkers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

OrderedWorkers::~OrderedWorkers() {
  {
    std::lock_guard l(m_);
    stop_ = true;
    waiting_.clear();
  }
  to_do_.notify_all();
  for (auto& t : threads_) t.join();
}

void OrderedWorkers::submit(Job job) {
  auto slot = std::make_shared<Slot>();
  slot->job = std::move(job);
  in_order_.push_back(slot);
  {
    std::lock_guard l(m_);
    waiting_.push_back(std::move(slot));
  }
  to_do_.notify_one();
}

Batch OrderedWorkers::take() {
  SlotPtr slot = std::move(in_order_.front());
  in_order_.pop_front();
  std::unique_lock l(m_);
  done_.wait(l, [&] { return slot->done; });
  if (slot->error) std::rethrow_exception(std::exchange(slot->error, nullptr));
  return std::move(slot->result);
}

void OrderedWorkers::clear() {
  in_order_.clear();
  std::lock_guard l(m_);
  waiting_.clear();
}

void OrderedWorkers::work() {
  set_num_threads(1);  // the caller's ops need the cores
  for (std::unique_lock l(m_);;) {
    to_do_.wait(l, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    SlotPtr slot = std::move(waiting_.front());
    waiting_.pop_front();
    l.unlock();
    Batch result;
    std::exception_ptr error;
    try {
      result = slot->job();
    } catch (...) {
      error = std::current_exception();
    }
    slot->job = {};  // what it captured dies here
    l.lock();
    slot->result = std::move(result);
    slot->error = std::move(error);
    slot->done = true;
    done_.notify_one();
  }
}

}  // namespace tandem::data
