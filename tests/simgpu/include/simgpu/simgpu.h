/// Control of the simulated GPU, for tests and tools: what it counted, what is to fail, how long a real GPU would take.
/// A C interface in libsimgpu, which a program that isn't linked with it finds by dlsym(RTLD_DEFAULT, ...) once a CUDA
/// device has been asked for.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Since the start, or simgpu_reset_counts. Calls count when they are made; nodes of a graph when it is launched; bytes
/// and operations when the work has run.
struct simgpu_counts {
  uint64_t kernels;        // launched by calls
  uint64_t library_calls;  // that queued work: cuBLASLt, cuDNN, NCCL
  uint64_t device_copies, fills;
  uint64_t host_copies, host_copy_bytes;  // between the host and a device
  uint64_t peer_copies, peer_copy_bytes;  // between devices
  uint64_t graphs;                        // launched ...
  uint64_t graph_nodes;                   // ... with so many nodes in all
  uint64_t allocations;                   // of device memory, of either kind
  uint64_t pinned_allocations;
  uint64_t host_waits;  // calls that waited for a stream, an event or a device
  uint64_t queries;
  uint64_t peak_bytes;  // of device memory allocated at a time, the most of any device
  /// Of kernels and library calls. Each four bytes count once for an operation, however often it touches them; what it
  /// has written itself isn't read. Kernels' bytes are known in the checked mode alone.
  uint64_t bytes_read, bytes_written;
  double flops;  // of library calls
};
void simgpu_get_counts(struct simgpu_counts* counts);
void simgpu_reset_counts(void);

/// The same by kernel and library function.
struct simgpu_operation_counts {
  const char* name;
  uint64_t runs;
  uint64_t bytes_read, bytes_written;
  double flops;
  double device_us;  // as estimated
};
void simgpu_for_each_operation(void (*f)(void* context, const struct simgpu_operation_counts* counts), void* context);

/// All of that as one JSON object, for tools that don't know these structs; it stays until the next call.
const char* simgpu_report(void);

/// 1 where accesses are reported: the library, or the program, was compiled so.
int simgpu_is_checked(void);
/// The seed of this process.
uint64_t simgpu_seed(void);

// What is to fail. Counts are from the call on, 1: the next. 0: none does.

/// The n-th allocation of device memory finds none.
void simgpu_fail_allocation(uint64_t n);
/// The n-th launch of a kernel is refused, as one that asks for too much.
void simgpu_refuse_launch(uint64_t n);
/// The n-th kernel launched by a call fails when it runs: all calls after that give cudaErrorLaunchFailure.
void simgpu_fail_kernel(uint64_t n);
/// All calls give this cudaError_t from now on; 0: none does.
void simgpu_set_sticky_error(int error);
/// Copies between devices and collectives take so much longer, in truth and in the estimate. A negative number: they
/// never end.
void simgpu_delay_links_ms(double ms);

// How long a real GPU (device_profile.h) would take: every operation as long as its bytes or its arithmetic at full
// speed, whichever is longer, and a launch's costs; streams of a device overlap without disturbing each other. A bound,
// no forecast.

/// Which GPU that is.
const char* simgpu_profile(void);

/// The calling thread's time so far, as it would pass on such a machine, in microseconds: with its launches and waits,
/// without what else it does.
double simgpu_host_us(void);
/// Operations are recorded, or were.
void simgpu_start_timeline(void);
/// Writes what was recorded since as a chrome trace. 0: it could not.
int simgpu_write_timeline(const char* path);

#ifdef __cplusplus
}
#endif
