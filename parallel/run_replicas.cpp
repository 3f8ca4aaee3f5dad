#include <tandem/core/parallel_for.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/process_group_impl.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/thread_group.h>

#include <algorithm>
#include <system_error>
#include <thread>

namespace tandem {
namespace {

// What the threads share with the caller; they hold it too, so that one left behind finds it.
struct Run {
  std::function<void(int)> fn;
  std::shared_ptr<ThreadGroup> group;
  Context context;
  RunReplicasOptions options;
  int threads = 1;

  std::mutex mutex;
  std::condition_variable changed;
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

void run_rank(const std::shared_ptr<Run>& run, std::shared_ptr<ThreadMembership> membership) {
  const int rank = membership->rank();
  std::exception_ptr error;
  {
    Context mine = run->context;
    mine.device.index = uint8_t(rank);
    mine.process_group = nullptr;
    mine.replica = nullptr;
    ContextGuard guard(std::move(mine));
    set_num_threads(run->threads);
    try {
      auto impl = std::make_unique<ProcessGroup::Impl>();
      impl->membership = membership;
      impl->local_rank = rank;
      impl->local_size = run->group->size();
      ProcessGroup group(std::move(impl));
      run->fn(rank);
    } catch (...) {
      error = std::current_exception();
      membership->leave(error_text(error));
    }
  }
  membership = nullptr;  // says goodbye before the caller may go on
  std::lock_guard lock(run->mutex);
  if (error) {
    const bool echo = is_echo(error, rank);
    if (!run->first || (run->first_is_echo && !echo)) {
      run->first = error;
      run->first_is_echo = echo;
    }
  }
  run->ended[size_t(rank)] = true;
  --run->running;
  run->changed.notify_all();
}

}  // namespace

void run_replicas(int n, std::function<void(int)> fn, RunReplicasOptions options) {
  check(n >= 1 && n <= kMaxDevices, "[run_replicas] ", n, " replicas: from 1 to ", kMaxDevices);
  if (current_device().is_cpu())
    set_cpu_devices(std::max(n, device_count(DeviceKind::cpu)));
  else
    require_device({current_device().kind, uint8_t(n - 1)});
  auto run = std::make_shared<Run>();
  run->fn = std::move(fn);
  run->group = std::make_shared<ThreadGroup>(n);
  run->context = context();
  run->options = options;
  run->threads = options.threads ? options.threads : std::max(1, num_threads() / n);
  run->running = n;
  run->ended.assign(size_t(n), false);

  // All are members before any of them runs: one may be gone before another has begun.
  std::vector<std::shared_ptr<ThreadMembership>> members;
  for (int r = 0; r < n; ++r) members.push_back(std::make_shared<ThreadMembership>(run->group, r, options.timeout));
  std::vector<std::thread> threads;
  try {
    for (auto& m : members) threads.emplace_back([run, m]() mutable { run_rank(run, std::move(m)); });
  } catch (const std::system_error& e) {
    const std::string why =
        message("[run_replicas] thread ", threads.size(), " of ", n, " could not be started: ", e.what());
    members[0]->report(int(threads.size()), why);
    for (auto& t : threads) t.join();
    throw Error(why);
  }
  members.clear();
  std::unique_lock lock(run->mutex);
  run->changed.wait(lock, [&] { return run->running == 0 || run->first; });
  const bool all = run->changed.wait_for(lock, options.timeout, [&] { return run->running == 0; });
  std::string left;
  for (int r = 0; r < n; ++r)
    if (!run->ended[size_t(r)]) left += message(left.empty() ? "" : ", ", r);
  const std::exception_ptr error = run->first;
  lock.unlock();
  for (auto& t : threads) all ? t.join() : t.detach();
  check<CommError>(all, "[run_replicas] ranks ", left, " still run ", double(options.timeout.count()) / 1000,
                   " s after another failed: ", error ? error_text(error) : "");
  if (error) std::rethrow_exception(error);
}

}  // namespace tandem
