#include "nccl_communicator.h"

#include <unistd.h>

#include <cstdio>

#include "api.h"
#include "live_objects.h"
#include "refusal.h"
#include "scheduler.h"
#include "settings.h"

namespace simgpu {
namespace {

LiveObjects<ncclComm_t, std::shared_ptr<Communicator>>& communicators() {
  static auto& all = *new LiveObjects<ncclComm_t, std::shared_ptr<Communicator>>("communicator");
  return all;
}

/// A zombie has ended, too: who started it may not have asked for its code yet.
bool has_ended(pid_t process) {
  if (process == getpid()) return false;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", int(process));
  FILE* f = std::fopen(path, "re");
  if (!f) return true;
  char state = 'X';
  const bool read = std::fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
  std::fclose(f);
  return !read || state == 'Z' || state == 'X';
}

class Join : public NcclJob {
 public:
  Join(const char* function, std::shared_ptr<Communicator> c) : function_(function), c_(std::move(c)) {}

  ncclResult_t poll() override {
    for (int r = 0; r < c_->ranks; ++r)
      if (c_->record(r).seat < Seat::taken) return ncclInProgress;
    c_->segment->close();
    for (int a = 0; a < c_->ranks; ++a)
      for (int b = a + 1; b < c_->ranks; ++b)
        if (c_->record(a).device == c_->record(b).device)
          return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", a, b,
                        c_->record(a).device);
    c_->state = Communicator::State::ready;
    return ncclSuccess;
  }
  std::string name() const override { return std::string(function_) + " of " + c_->place(); }

 private:
  const char* function_;
  std::shared_ptr<Communicator> c_;
};

}  // namespace

bool Communicator::all_reached(std::atomic<uint64_t> RankRecord::*counter, uint64_t n) const {
  for (int r = 0; r < ranks; ++r)
    if ((record(r).*counter).load(std::memory_order_acquire) < n) return false;
  return true;
}

bool Communicator::has_work() const { return issued != finished && !settings().runs_nothing && !sticky_error(); }

ncclResult_t Communicator::async_error() {
  if (error || state == State::joining) return error;
  for (int r = 0; r < ranks; ++r) {
    RankRecord& peer = record(r);
    if (r != rank && peer.seat == Seat::taken && has_ended(peer.process)) peer.seat = Seat::gone;
    if (r != rank && peer.seat == Seat::gone)
      return error = refuse(ncclRemoteError, "%s: rank %d is gone", place().c_str(), r);
  }
  return ncclSuccess;
}

std::shared_ptr<Communicator> find_communicator(ncclComm_t handle, const char* function) {
  const auto* found = communicators().find(handle, function);
  return found ? *found : nullptr;
}
ncclComm_t publish(std::shared_ptr<Communicator> c) { return communicators().add(std::move(c)); }
void forget_communicator(ncclComm_t handle, const char* function) { communicators().remove(handle, function); }

void lose_rank(int rank) {
  communicators().for_each([&](const std::shared_ptr<Communicator>& c) {
    if (c->rank == rank && c->state == Communicator::State::ready) c->own().seat = Seat::gone;
  });
}

ncclResult_t check_ready(const char* function, const std::shared_ptr<Communicator>& c) {
  if (!c) return refuse(ncclInvalidArgument, "%s: no communicator", function);
  if (c->job || c->unasked || c->state == Communicator::State::joining)
    return refuse(ncclInvalidArgument,
                  "%s: Attempt to use communicator before the previous operation returned ncclSuccess", function);
  if (c->state != Communicator::State::ready)
    return refuse(ncclInvalidUsage, "%s: the communicator was finalized", function);
  return c->async_error();
}

ncclResult_t take_seat(const char* function, Communicator& c) {
  int others = 0;
  if (!(*c.segment)->ranks.compare_exchange_strong(others, c.ranks) && others != c.ranks)
    return refuse(ncclInvalidArgument, "%s: %s, where others come as one of %d", function, c.place().c_str(), others);
  Seat empty = Seat::empty;
  if (!c.own().seat.compare_exchange_strong(empty, Seat::claimed))
    return refuse(ncclInvalidArgument, "%s: %s has come already", function, c.place().c_str());
  c.own().device = c.device;
  c.own().process = getpid();
  c.own().seat = Seat::taken;
  return ncclSuccess;
}

std::shared_ptr<NcclJob> make_join(const char* function, std::shared_ptr<Communicator> c) {
  return std::make_shared<Join>(function, std::move(c));
}

}  // namespace simgpu
