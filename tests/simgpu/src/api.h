/// What all functions of the runtime's API have in common: the lock, the calling thread's device and last error, errors
/// that stay.
#pragma once
#include <cuda_runtime.h>

#include <mutex>

#include "executor.h"
#include "operation.h"

namespace simgpu {

/// The error that all calls give since a kernel has failed; cudaSuccess.
cudaError_t sticky_error();
void set_sticky_error(cudaError_t error);
/// Remembers it as the calling thread's last, and gives it back.
cudaError_t record_error(cudaError_t error);

void set_current_device(int device);

/// Calls f under the lock; its error is remembered. Host functions of streams may not get here: CUDA lets them wait for
/// themselves.
template <class F>
cudaError_t api(F&& f) {
  if (in_host_function()) fail("a host function of a stream calls CUDA, which may not be");
  std::lock_guard lock(runtime_mutex());
  if (sticky_error()) return record_error(sticky_error());
  return record_error(f());
}

}  // namespace simgpu
