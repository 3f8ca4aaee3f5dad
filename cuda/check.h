/// Not installed. CUDA's error codes as exceptions.
#pragma once
#include <cuda_runtime.h>
#include <tandem/core/error.h>

namespace tandem::cuda_impl {

/// Throws DeviceError with the expression, the device, and the ops that may have caused it (OutOfMemoryError where
/// that is what it is).
[[noreturn]] void fail(cudaError_t error, const char* expression, const char* file, int line);
/// What may have made a library's call fail.
enum class Cause { this_call, no_memory, any_kernel };
/// The same for CUDA's libraries; `what` names the call, its error and the sizes it was for.
[[noreturn]] void fail(Cause cause, const std::string& what);
/// Waits for the stream after every launch where TANDEM_CUDA_SYNC=1, so that an error names the op that made it.
void after_launch(cudaStream_t stream);

#define TANDEM_CUDA(expression)                                                                  \
  do {                                                                                           \
    if (const cudaError_t tandem_error = (expression); tandem_error != cudaSuccess) [[unlikely]] \
      ::tandem::cuda_impl::fail(tandem_error, #expression, __FILE__, __LINE__);                  \
  } while (false)

/// The op that this thread last entered (core/context.h) uses the device: errors of kernels are reported late, and name
/// the ops that used it last. An op's name is a literal.
void note_op(int device);

}  // namespace tandem::cuda_impl
