/// run_replicas: the same training function in n threads of this process, each a rank of one group.
#pragma once
#include <tandem/parallel/process_group.h>

namespace tandem {

struct RunReplicasOptions {
  /// Of each rank's ops; 0: this thread's share of the cores, at least one.
  int threads = 0;
  /// Of a collective, and of the time a rank may go on after another has failed.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// Calls fn(rank) on n threads, and returns when all have. Each has a context of its own that begins as the caller's:
/// its device is cpu:rank (made if need be; on a caller's other kind of device, the rank's one of that kind), its
/// generator stands where the caller's does, its group (`current_process_group()`) has n ranks. So what `tandem-run -n
/// N` starts as N processes runs here as N threads. Throws what the first rank to fail threw; the others find it gone
/// at their next collective that needs it. Throws CommError, and leaves threads behind, where ranks do not end within
/// `timeout` of that.
TANDEM_API void run_replicas(int n, std::function<void(int rank)> fn, RunReplicasOptions options = {});

}  // namespace tandem
