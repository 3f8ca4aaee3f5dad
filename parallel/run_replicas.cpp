#include <tandem/core/parallel_for.h>
#include <tandem/parallel/connect_processes.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/process_group_impl.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/thread_group.h>
#include <tandem/parallel/token.h>

#include <algorithm>
#include <system_error>
#include <thread>

namespace tandem {
namespace {

// Makes the group's member that a thread is.
using Join = std::function<std::unique_ptr<ProcessGroup::Impl>(int thread)>;

// What the threads share with the caller; they hold it too, so that one left behind finds it.
struct Run {
  std::function<void(int)> fn;
  Join join;
  DeviceTransport device_transport = DeviceTransport::where_possible;
  Context context;
  int first_rank = 0;  // of this process
  int threads = 1;     // of each rank's ops

  std::mutex mutex;
  std::condition_variable changed;
  enum class Gate { closed, open, cancelled } gate = Gate::closed;  // no rank begins before all threads are there
  int running = 0;
  std::vector<bool> ended;
  std::exception_ptr first;  // of a failure; one that is not the echo of another's counts more
  bool first_is_echo = false;
};

// Whether it tells of another rank's failure.
bool is_echo(const std::exception_ptr& error, int rank) {
  try {
    std::rethrow_exception(error);
  } catch (const CommError& e) {
    return e.rank != rank;
  } catch (...) {
    return false;
  }
}

// All are members before any of them runs: one may be gone before another has begun.
Join join_threads(int n, std::chrono::milliseconds timeout) {
  auto group = std::make_shared<ThreadGroup>(n);
  auto members = std::make_shared<std::vector<std::shared_ptr<ThreadMembership>>>();
  for (int r = 0; r < n; ++r) members->push_back(std::make_shared<ThreadMembership>(group, r, timeout));
  return [n, members](int thread) {
    auto impl = std::make_unique<ProcessGroup::Impl>();
    impl->membership = std::move((*members)[size_t(thread)]);
    impl->local_rank = thread;
    impl->local_size = n;
    return impl;
  };
}

// With the ranks of the other processes that a launcher has started.
Join join_threads_of(const Rendezvous& process, int n, std::chrono::milliseconds timeout) {
  return [process, n, timeout, transport = transport_factory("auto", token_from_environment())](int thread) {
    return join_processes(thread_of(process, thread, n), transport, timeout);
  };
}

void run_rank(const std::shared_ptr<Run>& run, int thread) {
  {
    std::unique_lock lock(run->mutex);
    run->changed.wait(lock, [&] { return run->gate != Run::Gate::closed; });
    if (run->gate == Run::Gate::cancelled) return;
  }
  std::shared_ptr<Membership> membership;
  std::exception_ptr error;
  {
    Context mine = run->context;
    mine.device.index = uint8_t(thread);
    mine.process_group = nullptr;
    mine.replica = nullptr;
    ContextGuard guard(std::move(mine));
    set_num_threads(run->threads);
    try {
      auto impl = run->join(thread);
      membership = impl->membership;
      impl->device_transport = run->device_transport;
      ProcessGroup group(std::move(impl));
      // The processes of a machine divide its GPUs among them; CPU devices are each process's own.
      if (!context().device.is_cpu()) context().device.index = uint8_t(group.local_rank());
      require_device(context().device);
      run->fn(group.rank());
    } catch (...) {
      error = std::current_exception();
      if (membership) membership->leave(error_text(error));
    }
  }
  membership = nullptr;  // says goodbye before the caller may go on
  std::lock_guard lock(run->mutex);
  if (error) {
    const bool echo = is_echo(error, run->first_rank + thread);
    if (!run->first || (run->first_is_echo && !echo)) {
      run->first = error;
      run->first_is_echo = echo;
    }
  }
  run->ended[size_t(thread)] = true;
  --run->running;
  run->changed.notify_all();
}

std::vector<std::thread> start_threads(const std::shared_ptr<Run>& run, int n) {
  std::vector<std::thread> threads;
  std::string why;
  try {
    for (int i = 0; i < n; ++i) threads.emplace_back([run, i] { run_rank(run, i); });
  } catch (const std::system_error& e) {
    why = message("[run_replicas] thread ", threads.size(), " of ", n, " could not be started: ", e.what());
  }
  {
    std::lock_guard lock(run->mutex);
    run->gate = why.empty() ? Run::Gate::open : Run::Gate::cancelled;
    run->changed.notify_all();
  }
  if (why.empty()) return threads;
  for (auto& t : threads) t.join();
  throw Error(why);
}

}  // namespace

void run_replicas(int n, std::function<void(int)> fn, RunReplicasOptions options) {
  check(n >= 1 && n <= kMaxDevices, "[run_replicas] ", n, " replicas: from 1 to ", kMaxDevices);
  const auto process = launched_rendezvous(process_environment());
  const bool with_others = process && process->world_size > 1 && !options.alone && !context().process_group;
  if (current_device().is_cpu()) set_cpu_devices(std::max(n, device_count(DeviceKind::cpu)));
  check(options.backend != "mpi", "[run_replicas] backend mpi is for processes, which mpirun starts");
  auto run = std::make_shared<Run>();
  run->device_transport = device_transport_of(options.backend);
  run->fn = std::move(fn);
  run->join = with_others ? join_threads_of(*process, n, options.timeout) : join_threads(n, options.timeout);
  run->context = context();
  run->first_rank = with_others ? process->rank * n : 0;
  run->threads = options.threads ? options.threads : std::max(1, num_threads() / n);
  run->running = n;
  run->ended.assign(size_t(n), false);
  std::vector<std::thread> threads = start_threads(run, n);

  std::unique_lock lock(run->mutex);
  run->changed.wait(lock, [&] { return run->running == 0 || run->first; });
  const bool all = run->changed.wait_for(lock, options.timeout, [&] { return run->running == 0; });
  std::string left;
  for (int i = 0; i < n; ++i)
    if (!run->ended[size_t(i)]) left += message(left.empty() ? "" : ", ", run->first_rank + i);
  const std::exception_ptr error = run->first;
  lock.unlock();
  for (auto& t : threads) all ? t.join() : t.detach();
  check<CommError>(all, "[run_replicas] ranks ", left, " still run ", double(options.timeout.count()) / 1000,
                   " s after another failed: ", error ? error_text(error) : "");
  if (error) std::rethrow_exception(error);
}

}  // namespace tandem
