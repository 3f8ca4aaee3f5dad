/// What all functions of the runtime's API have in common: the lock, the calling thread's device and last error, errors
/// that stay.
#pragma once
#include <cuda_runtime.h>

#include <mutex>

#include "operation.h"

namespace simgpu {

/// The error that all calls give since a kernel has failed; cudaSuccess.
cudaError_t sticky_error();
void set_sticky_error(cudaError_t error);
/// Remembers it as the calling thread's last, and gives it back.
cudaError_t record_error(cudaError_t error);

void set_current_device(int device);

/// Calls f under the lock; its error is remembered.
template <class F>
cudaError_t api(F&& f) {
  std::lock_guard lock(runtime_mutex());
  if (sticky_error()) return record_error(sticky_error());
  return record_error(f());
}

}  // namespace simgpu
