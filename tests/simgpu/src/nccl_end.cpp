// A communicator's state, asked for, and its end.
#include "nccl_group.h"
#include "refusal.h"
#include "scheduler.h"

namespace simgpu {
namespace {

/// What was queued is run; a finalize waits for all ranks then, a destruction for nobody.
class Ending : public NcclJob {
 public:
  Ending(const char* function, std::shared_ptr<Communicator> c, bool with_peers)
      : function_(function), c_(std::move(c)), with_peers_(with_peers) {}

  ncclResult_t poll() override {
    if (c_->has_work()) {
      advance(nullptr);
      return ncclInProgress;
    }
    if (!c_->segment) return ncclSuccess;  // a split that came to nothing
    if (c_->own().seat == Seat::taken) c_->own().seat = Seat::left;
    for (int r = 0; with_peers_ && r < c_->ranks; ++r)
      if (c_->record(r).seat == Seat::taken) return ncclInProgress;
    c_->state = Communicator::State::ended;
    return ncclSuccess;
  }
  std::string name() const override { return std::string(function_) + " of " + c_->place(); }

 private:
  const char* function_;
  std::shared_ptr<Communicator> c_;
  bool with_peers_;
};

/// What may be asked of a communicator that has joined, also of one in error.
ncclResult_t ask(const char* function, ncclComm_t handle, int* to, int Communicator::*what) {
  std::lock_guard lock(runtime_mutex());
  const auto c = find_communicator(handle, function);
  if (!c || !to) return refuse(ncclInvalidArgument, "%s: no communicator, or no place for the answer", function);
  if (c->state == Communicator::State::joining)
    return refuse(ncclInvalidArgument, "%s: the communicator is not complete yet", function);
  *to = (*c).*what;
  return ncclSuccess;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return ask(__func__, handle, count, &Communicator::ranks);
}
ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  return ask(__func__, handle, device, &Communicator::device);
}
ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return ask(__func__, handle, rank, &Communicator::rank);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  std::lock_guard lock(runtime_mutex());
  const auto c = find_communicator(handle, __func__);
  if (!c || !error) return refuse(ncclInvalidArgument, "%s: no communicator, or no place for the error", __func__);
  if (c->job) {
    *error = c->job->poll();
    if (*error == ncclInProgress) return ncclSuccess;
    c->error = *error;
    c->job = nullptr;
  } else if (c->unasked) {
    c->unasked = false;
    *error = ncclInProgress;
  } else {
    *error = c->async_error();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return NcclGroup::call([&](NcclGroup& group) {
    const auto c = find_communicator(handle, "ncclCommFinalize");
    if (const ncclResult_t r = check_ready("ncclCommFinalize", c)) return r;
    c->state = Communicator::State::ending;
    group.add(c, std::make_shared<Ending>("ncclCommFinalize", c, true), [](ncclResult_t) {});
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  std::shared_ptr<Communicator> c;
  {
    std::lock_guard lock(runtime_mutex());
    c = find_communicator(handle, __func__);
    if (!c) return ncclSuccess;
    if (c->job) return refuse(ncclInvalidArgument, "%s: the previous operation has not returned ncclSuccess", __func__);
    c->blocking = true;
  }
  return NcclGroup::call([&](NcclGroup& group) {
    group.add(c, std::make_shared<Ending>("ncclCommDestroy", c, false),
              [handle](ncclResult_t) { forget_communicator(handle, "ncclCommDestroy"); });
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  std::lock_guard lock(runtime_mutex());
  const auto c = find_communicator(handle, __func__);
  if (!c) return ncclSuccess;
  c->aborted = true;
  if (c->segment) c->own().seat = Seat::gone;
  forget_communicator(handle, __func__);
  return ncclSuccess;
}

}  // extern "C"
