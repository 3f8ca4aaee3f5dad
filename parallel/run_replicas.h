/// run_replicas: the same training function in n threads of this process, each a rank of one group.
#pragma once
#include <tandem/parallel/process_group.h>

namespace tandem {

struct RunReplicasOptions {
  /// Of each rank's ops; 0: this thread's share of the cores, at least one.
  int threads = 0;
  /// Of a collective, and of the time a rank may go on after another has failed.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// As of ProcessGroupOptions; "mpi" is for processes alone.
  std::string backend = {};
  /// Leaves out the processes that a launcher has started beside this one.
  bool alone = false;
};

/// Calls fn(rank) on n threads, and returns when all have. Each has a context of its own that begins as the caller's:
/// its device is cpu:0, cpu:1 and so on (made if need be; on a caller's other kind of device, one of that kind), its
/// generator stands where the caller's does, its group (`current_process_group()`) has n ranks. So what `tandem-run -n
/// N` starts as N processes runs here as N threads.
///
/// Threads and processes compose: in a program that a launcher (tandem-run, torchrun, srun, mpirun) or `spawn` has
/// started N times, the threads of all N processes are one group of N n ranks, of which the p-th process has n
/// neighbours, from p n on. Each process must call this with the same n. Not so with `alone`, nor on a thread that is
/// in a group already, whose n threads are then a group of their own.
///
/// Throws what the first rank of this process to fail threw; the others find it gone at their next collective that
/// needs it. Throws CommError, and leaves threads behind, where ranks do not end within `timeout` of that.
TANDEM_API void run_replicas(int n, std::function<void(int rank)> fn, RunReplicasOptions options = {});

}  // namespace tandem
