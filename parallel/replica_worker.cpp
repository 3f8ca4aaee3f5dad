#include <tandem/core/parallel_for.h>
#include <tandem/parallel/replica_worker.h>

namespace tandem {

std::shared_ptr<ReplicaWorker> ReplicaWorker::start(Replica replica, int threads) {
  auto worker = std::make_shared<ReplicaWorker>(replica, threads);
  worker->thread_ = std::thread([worker] { worker->run(); });
  return worker;
}

void ReplicaWorker::post(std::function<void()> task) {
  Context posters = context();
  std::lock_guard lock(mutex_);
  task_ = std::move(task);
  context_ = std::move(posters);
  error_ = nullptr;
  busy_ = true;
  changed_.notify_all();
}

bool ReplicaWorker::wait_until(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return !busy_; });
}

void ReplicaWorker::stop() {
  bool busy;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    busy = busy_;
    changed_.notify_all();
  }
  if (!thread_.joinable()) return;
  // The last handle of what stops this worker may have died on its own thread, with the task's captures.
  if (busy || thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void ReplicaWorker::run() {
  set_num_threads(threads_);  // before this thread's first parallel region
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [&] { return busy_ || stopped_; });
    if (!busy_) return;
    lock.unlock();
    run_task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void ReplicaWorker::run_task() {
  context_.replica = &replica_;
  context_.device = replica_.device;
  context_.threads = threads_;
  try {
    ContextGuard guard(std::move(context_));
    task_();
  } catch (...) {
    error_ = std::current_exception();
  }
  task_ = {};
  rest_threads();
}

}  // namespace tandem
