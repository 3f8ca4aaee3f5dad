// Splitting a communicator: its ranks say which of the new ones they want to be in, and in what order.
#include <algorithm>

#include "nccl_group.h"
#include "nccl_init.h"
#include "refusal.h"

namespace simgpu {
namespace {

class Split : public NcclJob {
 public:
  Split(std::shared_ptr<Communicator> parent, std::shared_ptr<Communicator> child, int color, int key)
      : parent_(std::move(parent)), child_(std::move(child)), color_(color), key_(key), turn_(++parent_->splits) {}

  ncclResult_t poll() override {
    switch (phase_) {
      case Phase::post:  // when all have read what was posted before
        if (!parent_->all_reached(&RankRecord::split_done, turn_ - 1)) return ncclInProgress;
        parent_->own().split_color = color_;
        parent_->own().split_key = key_;
        parent_->own().split_posted.store(turn_, std::memory_order_release);
        phase_ = Phase::choose;
        return ncclInProgress;
      case Phase::choose:
        if (!parent_->all_reached(&RankRecord::split_posted, turn_)) return ncclInProgress;
        return choose();
      case Phase::open: return open();
      case Phase::join: break;
    }
    return child_ ? join_->poll() : ncclSuccess;
  }
  std::string name() const override { return "ncclCommSplit of " + parent_->place(); }

 private:
  enum class Phase { post, choose, open, join };

  ncclResult_t choose() {
    for (int r = 0; r < parent_->ranks; ++r)
      if (parent_->record(r).split_color == color_) members_.push_back(r);
    std::stable_sort(members_.begin(), members_.end(),
                     [&](int a, int b) { return parent_->record(a).split_key < parent_->record(b).split_key; });
    if (child_ && members_.front() == parent_->rank) {
      parent_->own().split_child = Segment::create();
      parent_->own().split_named.store(turn_, std::memory_order_release);
    }
    phase_ = Phase::open;
    return ncclInProgress;
  }

  ncclResult_t open() {
    if (child_) {
      const RankRecord& first = parent_->record(members_.front());
      if (first.split_named.load(std::memory_order_acquire) < turn_) return ncclInProgress;
      child_->segment = Segment::open(first.split_child);
      if (!child_->segment) return refuse(ncclSystemError, "ncclCommSplit: process %d is gone", first.process);
      child_->ranks = int(members_.size());
      child_->rank = int(std::find(members_.begin(), members_.end(), parent_->rank) - members_.begin());
      if (const ncclResult_t r = take_seat("ncclCommSplit", *child_)) return r;
      join_ = make_join("ncclCommSplit", child_);
    }
    parent_->own().split_done.store(turn_, std::memory_order_release);
    phase_ = Phase::join;
    return ncclInProgress;
  }

  std::shared_ptr<Communicator> parent_, child_;  // no child: the rank wants none
  int color_, key_;
  uint64_t turn_;
  Phase phase_ = Phase::post;
  std::vector<int> members_;
  std::shared_ptr<NcclJob> join_;
};

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* to, ncclConfig_t* config) {
  return NcclGroup::call([&](NcclGroup& group) {
    const auto parent = find_communicator(handle, "ncclCommSplit");
    if (const ncclResult_t r = check_ready("ncclCommSplit", parent)) return r;
    if (!to || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
      return refuse(ncclInvalidArgument, "ncclCommSplit: color %d, or nowhere to put the communicator", color);
    bool blocking = parent->blocking;
    if (const ncclResult_t r = check_config("ncclCommSplit", config, &blocking)) return r;
    *to = nullptr;
    std::shared_ptr<Communicator> child;
    if (color != NCCL_SPLIT_NOCOLOR) {
      child = std::make_shared<Communicator>();
      child->device = parent->device;
      child->blocking = blocking;
      *to = publish(child);
    }
    // A communicator that doesn't block is asked itself; without one, its parent.
    group.add(child ? child : parent, std::make_shared<Split>(parent, child, color, key), [to](ncclResult_t r) {
      if (!r || !*to) return;
      forget_communicator(*to, "ncclCommSplit");
      *to = nullptr;
    });
    return ncclSuccess;
  });
}
