/// A rank's communicator: its place among the ranks, its state, and what it has been asked to do.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "nccl_reduction.h"
#include "nccl_segment.h"
#include "operation.h"

namespace simgpu {

/// Something that ranks do together on their hosts: joining, splitting, ending. Polled under the runtime's lock.
class NcclJob {
 public:
  virtual ~NcclJob() = default;
  /// ncclInProgress until it is done.
  virtual ncclResult_t poll() = 0;
  /// "ncclCommInitRank of rank 1 of 2", for the message where peers don't come.
  virtual std::string name() const = 0;
};

struct Communicator {
  enum class State { joining, ready, ending, ended };

  std::shared_ptr<Segment> segment{};
  int rank = 0, ranks = 0, device = 0;
  bool blocking = true;
  State state = State::joining;
  bool aborted = false;
  ncclResult_t error = ncclSuccess;  // that it stays in
  std::shared_ptr<NcclJob> job{};    // of a communicator that doesn't block
  bool unasked = false;              // it doesn't block, and nobody has asked yet whether the last call is done

  uint64_t calls = 0;                    // or groups of them
  uint64_t issued = 0, finished = 0;     // operations outside graphs
  bool busy = false;                     // one of its operations has begun
  uint64_t collectives = 0, chunks = 0;  // begun
  uint64_t splits = 0;                   // begun
  struct CustomReduction {
    ncclDataType_t type;
    Reduction reduction;
    bool is_live = true;
  };
  std::vector<CustomReduction> reductions{};  // number i is the operation ncclNumOps + i

  RankRecord& record(int r) const { return (*segment)->record[r]; }
  RankRecord& own() const { return record(rank); }
  uint64_t key() const { return (*segment)->key; }
  std::string place() const { return "rank " + std::to_string(rank) + " of " + std::to_string(ranks); }

  /// Whether all ranks' counters have reached n.
  bool all_reached(std::atomic<uint64_t> RankRecord::*counter, uint64_t n) const;
  /// Whether work that was queued outside graphs is still to run.
  bool has_work() const;
  /// Its own, or that a peer is gone.
  ncclResult_t async_error();
};

/// nullptr for no communicator; fails for one that isn't live.
std::shared_ptr<Communicator> find_communicator(ncclComm_t handle, const char* function);
ncclComm_t publish(std::shared_ptr<Communicator> c);
void forget_communicator(ncclComm_t handle, const char* function);

/// The peers of all communicators of that rank take it for gone.
void lose_rank(int rank);

/// SUCCESS where new work may be given to it: it has joined, the last call is done, and no error has come.
ncclResult_t check_ready(const char* function, const std::shared_ptr<Communicator>& c);

/// Takes the communicator's seat in its segment; the job waits for the others.
ncclResult_t take_seat(const char* function, Communicator& c);
std::shared_ptr<NcclJob> make_join(const char* function, std::shared_ptr<Communicator> c);

}  // namespace simgpu
