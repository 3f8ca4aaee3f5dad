// Messages from one rank to another: the sender goes on when all has been received.
#include <algorithm>
#include <cstring>

#include "nccl_operation.h"
#include "nccl_types.h"

namespace simgpu {
namespace {

bool sends(const CommunicatorCall& call) { return call.kind == CallKind::send; }

Mailbox& box(const CommunicatorCall& call, Communicator& c) {
  return sends(call) ? (*c.segment)->box[c.rank][call.root] : (*c.segment)->box[call.root][c.rank];
}

}  // namespace

Message::Message(const CommunicatorCall& call, Communicator& c)
    : call_(call),
      c_(c),
      box_(box(call, c)),
      window_(sends(call) ? c.segment->box_window(c.rank, call.root) : c.segment->box_window(call.root, c.rank)),
      bytes_(call.count * bytes_of(call.type)) {}

Step Message::step() { return sends(call_) ? send() : receive(); }

Step Message::send() {
  const uint64_t posted = box_.posted.load(std::memory_order_relaxed);
  if (box_.taken.load(std::memory_order_acquire) != posted) return Step::blocked;
  if (done_ == bytes_) return Step::done;
  const size_t part = std::min(kBoxBytes, bytes_ - done_);
  std::memcpy(window_, static_cast<const char*>(call_.from) + done_, part);
  box_.count = call_.count;
  box_.type = int32_t(call_.type);
  box_.posted.store(posted + 1, std::memory_order_release);
  done_ += part;
  return Step::again;
}

Step Message::receive() {
  const uint64_t taken = box_.taken.load(std::memory_order_relaxed);
  if (box_.posted.load(std::memory_order_acquire) == taken) return Step::blocked;
  if (box_.count != call_.count || box_.type != int32_t(call_.type))
    fail("rank %d sends %lu x %s to rank %d, which receives %zu x %s", call_.root, box_.count,
         name_of(ncclDataType_t(box_.type)), c_.rank, call_.count, name_of(call_.type));
  const size_t part = std::min(kBoxBytes, bytes_ - done_);
  std::memcpy(static_cast<char*>(call_.to) + done_, window_, part);
  box_.taken.store(taken + 1, std::memory_order_release);
  done_ += part;
  return done_ == bytes_ ? Step::done : Step::again;
}

}  // namespace simgpu
