/// Faults of NCCL's ranks, for tests: of the ranks with that number, in all communicators of this process.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// As if its GPU hung: what it has queued never runs on, and nobody is told.
void simgpu_nccl_hang_rank(int rank);

/// As if its process died: the same, and its peers get ncclRemoteError as their asynchronous error.
void simgpu_nccl_lose_rank(int rank);

/// Each of its operations takes that much longer.
void simgpu_nccl_slow_link(int rank, double milliseconds);

/// No rank has a fault any more; those that were lost stay lost to their peers.
void simgpu_nccl_mend(void);

#ifdef __cplusplus
}  // extern "C"
#endif
