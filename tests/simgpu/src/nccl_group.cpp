#include "nccl_group.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "refusal.h"
#include "settings.h"

namespace simgpu {
namespace {

thread_local NcclGroup group;

/// Ranks meet on their hosts before their GPUs do, so a thread that makes the same call for several of them, one after
/// the other, may wait for itself.
void check_ungrouped(Communicator& c, const CommunicatorCall& call) {
  struct Caller {
    uint64_t thread;
    int rank;
  };
  static auto& callers = *new std::map<uint64_t, std::map<uint64_t, Caller>>;  // by communicator and call
  static uint64_t threads = 0;
  static thread_local const uint64_t thread = ++threads;
  auto& calls = callers[c.key()];
  const auto [first, is_new] = calls.emplace(c.calls, Caller{thread, c.rank});
  if (!is_new && first->second.thread == thread)
    fail(
        "%s of %s, by the thread that called for rank %d: calls of one thread for several ranks must stand between "
        "ncclGroupStart and ncclGroupEnd",
        name_of(call.kind), c.place().c_str(), first->second.rank);
  constexpr uint64_t kKept = 64;
  calls.erase(calls.begin(), calls.lower_bound(c.calls < kKept ? 0 : c.calls - kKept));
}

}  // namespace

ncclResult_t NcclGroup::start() {
  ++group.depth_;
  return ncclSuccess;
}

ncclResult_t NcclGroup::end(bool grouped) {
  if (group.depth_ == 0) {
    std::lock_guard lock(runtime_mutex());
    return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  }
  if (--group.depth_) return ncclSuccess;
  return group.finish(grouped);
}

ncclResult_t NcclGroup::call(const std::function<ncclResult_t(NcclGroup&)>& f) {
  const bool grouped = group.depth_ > 0;
  start();
  ncclResult_t result;
  {
    std::lock_guard lock(runtime_mutex());
    result = f(group);
  }
  if (result) group.error_ = result;
  const ncclResult_t ended = end(grouped);
  return result ? result : ended;
}

void NcclGroup::add(std::shared_ptr<Communicator> c, std::shared_ptr<NcclJob> job,
                    std::function<void(ncclResult_t)> done) {
  jobs_.push_back({std::move(c), std::move(job), std::move(done)});
}

void NcclGroup::add(const std::shared_ptr<Communicator>& c, cudaStream_t stream, CommunicatorCall call) {
  const auto known = std::find_if(work_.begin(), work_.end(), [&](const Work& w) { return w.communicator == c; });
  if (known == work_.end())
    work_.push_back({c, stream, {std::move(call)}});
  else if (known->stream != stream)
    fail("%s of %s: one group with two streams for a communicator is not modelled", name_of(call.kind),
         c->place().c_str());
  else
    known->calls.push_back(std::move(call));
}

ncclResult_t NcclGroup::finish(bool grouped) {
  ncclResult_t result = std::exchange(error_, ncclSuccess);
  if (!result && !jobs_.empty() && !work_.empty()) {
    std::lock_guard lock(runtime_mutex());
    result = refuse(ncclInvalidUsage, "ncclGroupEnd: communicators are created and used in one group");
  }
  if (result) {  // nothing of the group happens
    std::lock_guard lock(runtime_mutex());
    for (const Job& j : jobs_) j.done(result);
  } else {
    result = run_jobs();
    if (const ncclResult_t submitted = submit_work(grouped)) result = submitted;
  }
  jobs_.clear();
  work_.clear();
  return result;
}

ncclResult_t NcclGroup::run_jobs() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  ncclResult_t result = ncclSuccess;
  for (Job& j : jobs_)
    if (!j.communicator->blocking) {
      std::lock_guard lock(runtime_mutex());
      j.communicator->job = j.job;  // polled by ncclCommGetAsyncError
      result = ncclInProgress;
      j.job = nullptr;
    }
  for (;;) {
    const NcclJob* waiting = nullptr;
    for (Job& j : jobs_) {
      if (!j.job) continue;
      std::lock_guard lock(runtime_mutex());
      const ncclResult_t r = j.job->poll();
      if (r == ncclInProgress) {
        waiting = j.job.get();
        continue;
      }
      if (r) result = r;
      j.done(r);
      j.job = nullptr;
    }
    if (!waiting) return result;
    if (Clock::now() - begin > std::chrono::duration<double>(settings().peer_timeout_s))
      fail("%s has waited %.0f s for its peers (a thread that calls for several of them needs a group)",
           waiting->name().c_str(), settings().peer_timeout_s);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

ncclResult_t NcclGroup::submit_work(bool grouped) {
  std::lock_guard lock(runtime_mutex());
  ncclResult_t result = ncclSuccess;
  for (Work& w : work_) {
    if (!grouped && w.communicator->ranks > 1) check_ungrouped(*w.communicator, w.calls.front());
    ++w.communicator->calls;
    submit_calls(w.communicator, stream_of(w.stream), std::move(w.calls));
    if (!w.communicator->blocking) {
      w.communicator->unasked = true;
      result = ncclInProgress;
    }
  }
  return result;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

ncclResult_t ncclGroupStart() { return NcclGroup::start(); }
ncclResult_t ncclGroupEnd() { return NcclGroup::end(true); }

}  // extern "C"
