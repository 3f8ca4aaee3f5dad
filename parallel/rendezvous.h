/// Not installed. Rendezvous: who a process is among its ranks, and where they meet, from an init method and the
/// environment that launchers and cluster engines set.
#pragma once
#include <tandem/core/export.h>

#include <functional>
#include <optional>
#include <string>

namespace tandem {

/// The value of a variable, where it is set and not empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
TANDEM_API Environment process_environment();

struct Rendezvous {
  int rank = 0;
  int world_size = 1;
  int local_rank = -1;         // among the ranks of this machine; -1 where it is not known
  int local_world_size = -1;   // the same
  bool several_nodes = false;  // known to be so
  std::string host;            // that rank 0's store listens at; on rank 0 alone where there is a file
  int port = 0;
  std::string file;          // through which rank 0 tells its address
  int ranks_of_process = 1;  // neighbours, all of them threads of it
  int restarts = 0;          // how often a launcher has started the ranks again
};

/// "env://" reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (with LOCAL_RANK and LOCAL_WORLD_SIZE, where they are
/// set), else what mpirun or srun set; there the master is MASTER_ADDR or else rank 0's node, as SLURM gives it, and
/// the port derives from the job and its step. "tcp://host:port" and "file:///path" want `rank` and `world_size`; port
/// 0 takes a free one, for a world of one. A given `rank` or `world_size` (not -1) counts for more than the
/// environment, whose LOCAL_ variables are of a world of the size that stands there, if any. TANDEM_RESTART_COUNT is
/// read in any case. Throws Error, naming the variable or argument that is missing or wrong.
TANDEM_API Rendezvous parse_init_method(const std::string& init_method, int rank, int world_size,
                                        const Environment& environment);

/// What env:// says, where a launcher has started this process; nothing otherwise.
TANDEM_API std::optional<Rendezvous> launched_rendezvous(const Environment& environment);

/// Of one of n threads that are ranks of a group, in each of the processes that `process` is one of.
TANDEM_API Rendezvous thread_of(const Rendezvous& process, int thread, int n);

/// The first of a SLURM list of nodes: "gpu07" of "gpu[07-09,12],login".
TANDEM_API std::string first_node(const std::string& list);
/// How many tasks that node has: of "2(x3),1", 2 for nodes 0 to 2. -1 where the list says nothing of it.
TANDEM_API int tasks_of_node(const std::string& tasks_per_node, int node);

}  // namespace tandem
