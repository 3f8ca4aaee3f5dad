#include "executor.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "arena.h"
#include "fault_handler.h"

namespace simgpu {
namespace {

struct Executor {
  std::mutex mutex;
  std::condition_variable given, done;
  const std::function<void()>* job = nullptr;
  std::thread::id id;
};

Executor& executor() {
  static auto& e = *new Executor;  // outlives the thread, which runs until the process ends
  return e;
}

thread_local bool is_executor = false;
thread_local bool is_host_function = false;

void serve() {
  is_executor = true;
  give_handler_a_stack();
  Executor& e = executor();
  std::unique_lock lock(e.mutex);
  for (;;) {
    e.given.wait(lock, [&] { return e.job != nullptr; });
    lock.unlock();
    (*e.job)();
    lock.lock();
    e.job = nullptr;
    e.done.notify_one();
  }
}

}  // namespace

void start_executor() {
  [[maybe_unused]] static const bool started = [] {
    std::thread(serve).detach();
    return true;
  }();
}

bool on_executor() { return is_executor; }

void run_host_function(const std::function<void()>& function) {
  std::thread([&] {
    is_host_function = true;
    function();
  }).join();
}

bool in_host_function() { return is_host_function; }

void run_on_executor(const std::function<void()>& job) {
  if (on_executor()) return job();
  start_executor();
  Executor& e = executor();
  OpenArena open;
  std::unique_lock lock(e.mutex);
  e.job = &job;
  e.given.notify_one();
  e.done.wait(lock, [&] { return e.job == nullptr; });
}

}  // namespace simgpu
