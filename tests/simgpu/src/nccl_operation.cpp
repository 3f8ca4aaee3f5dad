#include "nccl_operation.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <optional>

#include "footprint.h"
#include "nccl_faults.h"
#include "nccl_types.h"

namespace simgpu {
namespace {

using Clock = std::chrono::steady_clock;

/// All calls of a group for one communicator. Shared by a graph's launches: what is underway is forgotten at the end.
class Calls {
 public:
  Calls(std::shared_ptr<Communicator> c, std::vector<CommunicatorCall> calls, std::optional<uint64_t> turn)
      : c_(std::move(c)), calls_(std::move(calls)), turn_(turn) {}

  Step step() {
    if (c_->aborted) return end();
    const RankFault fault = fault_of(c_->rank);
    if (fault.stopped) return Step::blocked;
    if (!begun_) {
      if (c_->busy || (turn_ && *turn_ != c_->finished)) return Step::blocked;
      begun_ = c_->busy = true;
      begins_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(fault.delay);
      next_ = 0;
      for (const CommunicatorCall& call : calls_)
        if (call.is_message()) messages_.emplace_back(call, *c_);
    }
    if (Clock::now() < begins_) return Step::blocked;
    for (; next_ < calls_.size(); ++next_, exchange_.reset()) {
      if (calls_[next_].is_message()) continue;
      if (!exchange_) exchange_.emplace(calls_[next_], *c_);
      const Step s = exchange_->step();
      if (s != Step::done) return s;
    }
    return step_messages();
  }

 private:
  Step step_messages() {
    bool progress = false;
    for (auto m = messages_.begin(); m != messages_.end();) {
      const bool is_first = std::none_of(messages_.begin(), m, [&](const Message& x) { return x.goes_with(*m); });
      const Step s = is_first ? m->step() : Step::blocked;
      progress |= s != Step::blocked;
      m = s == Step::done ? messages_.erase(m) : std::next(m);
    }
    if (messages_.empty()) return end();
    return progress ? Step::again : Step::blocked;
  }

  Step end() {
    if (begun_) c_->busy = false;
    if (turn_) ++c_->finished;
    begun_ = false;
    exchange_.reset();
    messages_.clear();
    return Step::done;
  }

  std::shared_ptr<Communicator> c_;
  std::vector<CommunicatorCall> calls_;
  std::optional<uint64_t> turn_;  // outside graphs, a communicator's operations run in the order of their calls
  bool begun_ = false;
  Clock::time_point begins_{};
  size_t next_ = 0;
  std::optional<Exchange> exchange_;
  std::list<Message> messages_;
};

}  // namespace

const char* name_of(CallKind kind) {
  constexpr const char* names[] = {"ncclAllReduce",     "ncclReduce", "ncclBroadcast", "ncclAllGather",
                                   "ncclReduceScatter", "ncclSend",   "ncclRecv"};
  return names[int(kind)];
}

size_t CommunicatorCall::elements_read(const Communicator& c) const {
  switch (kind) {
    case CallKind::reduce_scatter: return count * size_t(c.ranks);
    case CallKind::broadcast: return c.rank == root ? count : 0;
    case CallKind::receive: return 0;
    default: return count;
  }
}

size_t CommunicatorCall::elements_written(const Communicator& c) const {
  switch (kind) {
    case CallKind::all_gather: return count * size_t(c.ranks);
    case CallKind::reduce: return c.rank == root ? count : 0;
    case CallKind::send: return 0;
    default: return count;
  }
}

void submit_calls(const std::shared_ptr<Communicator>& c, Stream& s, std::vector<CommunicatorCall> calls) {
  Operation o{.name = std::string(name_of(calls.front().kind)) + " of " + c->place(), .waits_for_peers = true};
  for (const CommunicatorCall& call : calls) {
    const size_t element = bytes_of(call.type);
    Footprint(call.from, call.elements_read(*c) * element).read_by(o);
    if (call.reduction.scalar_on_device) Footprint(call.reduction.scalar_on_device, element).read_by(o);
    Footprint(call.to, call.elements_written(*c) * element).written_by(o);
  }
  std::optional<uint64_t> turn;
  if (!is_capturing(s)) turn = c->issued++;
  o.step = [x = std::make_shared<Calls>(c, std::move(calls), turn)] { return x->step(); };
  submit(s, std::move(o));
}

}  // namespace simgpu
