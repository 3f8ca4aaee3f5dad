/// spawn: the same training function in n processes of this machine, each a rank; torch.multiprocessing.spawn.
#pragma once
#include <tandem/core/export.h>

#include <functional>

namespace tandem {

struct SpawnOptions {
  /// Of each rank's ops; 0: this process's share of the cores, at least one. OMP_NUM_THREADS counts more.
  int threads = 0;
};

/// Calls fn(rank) in n processes, and returns when all have returned. Each executes this program with these arguments
/// once more, from the start of main: it must come to the same call by the same way, so what is to happen once stands
/// after it (or after a look at RANK). There fn is called, and the process exits; earlier calls of spawn do nothing in
/// it. What `init_process_group` reads ("env://") is set: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT, TANDEM_TOKEN. The processes end with the thread that calls this.
///
/// Throws CommError with the first rank to fail (its process's number, also where threads are ranks in it) and what it
/// threw, or the signal that killed it; the others are then stopped, within a second. Throws Error when called in fn,
/// or by two threads at once.
TANDEM_API void spawn(const std::function<void(int rank)>& fn, int n, SpawnOptions options = {});

}  // namespace tandem
