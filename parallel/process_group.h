/// ProcessGroup: one rank's membership in a group of ranks, which are processes or threads, and the collectives among
/// them. Leaving the scope ends it, without warnings, also during an exception; rank 0 of a group of processes stays
/// for a second at most, for those who still need its store.
#pragma once
#include <tandem/parallel/communicator.h>

#include <functional>
#include <optional>

namespace tandem {

struct ProcessGroupOptions {
  /// How collectives are carried out. "cpu" ("gloo" is taken for it): by the host, through shared memory or sockets,
  /// whatever fits; tensors on GPUs are staged. "nccl": those by NCCL, whose sums have an order of their own; all
  /// others as with "cpu". "mpi": an MPI's messages, for ranks that mpirun has started. Empty: what TANDEM_BACKEND says
  /// in the environment, else NCCL for tensors on GPUs where each rank has one of its own, and "cpu" for all others.
  std::string backend = {};
  /// "env://": RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, or what srun and mpirun set;
  /// "tcp://host:port" and "file:///path" with `rank` and `world_size`.
  std::string init_method = "env://";
  int rank = -1;
  int world_size = -1;
  /// Of a collective, and of the rendezvous.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// How processes exchange values: "auto" is shared memory ("shm") where all are on one machine, else "sockets".
  std::string transport = "auto";
};

class TANDEM_API ProcessGroup {
 public:
  using Options = ProcessGroupOptions;
  /// Joins the group and returns when all ranks are there; it is this thread's group (`context().process_group`) until
  /// it ends. Throws CommError naming the ranks that did not come.
  explicit ProcessGroup(const ProcessGroupOptions& options);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;
  /// Among the ranks of this machine.
  int local_rank() const;
  int local_size() const;
  std::chrono::milliseconds timeout() const;

  /// The group's own collectives. For one thread at a time.
  Communicator& communicator();
  /// The same ranks, apart from the group's own collectives: what runs here keeps an order of its own. Collective.
  std::unique_ptr<Communicator> new_communicator();
  /// Some of the ranks, ascending; null on the others. Collective among all ranks of the group.
  std::unique_ptr<Communicator> new_group(const std::vector<int>& ranks);

  /// Returns when all ranks have come. Throws CommError at the deadline, naming those who have not
  /// (`monitored_barrier`).
  void barrier(std::chrono::milliseconds timeout = std::chrono::milliseconds(0));
  /// Runs fn on rank 0 while the others wait for as long as it takes and rank 0 lives: to write a checkpoint, say. What
  /// fn throws reaches rank 0's caller, and the others as a CommError. Collective.
  void rank0_only(const std::function<void()>& fn);

  struct Impl;
  /// Made by run_replicas.
  explicit ProcessGroup(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Communicator> open(const std::vector<int>& ranks);
  std::unique_ptr<Impl> impl_;
};

/// torch.distributed.init_process_group; the group ends with its scope.
inline ProcessGroup init_process_group(const ProcessGroupOptions& options = {}) { return ProcessGroup(options); }

/// How many processes a launcher (tandem-run, torchrun, srun, mpirun) has started together with this one, and which of
/// them this is; nothing where none has. Throws Error where the environment contradicts itself.
TANDEM_API std::optional<int> launched_world_size();
TANDEM_API std::optional<int> launched_rank();

/// This thread's group. Throws Error where it is in none.
TANDEM_API ProcessGroup& current_process_group();

}  // namespace tandem
