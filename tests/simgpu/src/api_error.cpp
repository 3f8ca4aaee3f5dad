// cudaGetLastError and the texts of errors.
#include <atomic>
#include <utility>

#include "api.h"

namespace simgpu {
namespace {

std::atomic<cudaError_t> sticky{cudaSuccess};
thread_local cudaError_t last = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};

#define SIMGPU_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kTexts[] = {
    SIMGPU_ERROR(cudaSuccess, "no error"),
    SIMGPU_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SIMGPU_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SIMGPU_ERROR(cudaErrorInitializationError, "initialization error"),
    SIMGPU_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SIMGPU_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    SIMGPU_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SIMGPU_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SIMGPU_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SIMGPU_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SIMGPU_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SIMGPU_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    SIMGPU_ERROR(cudaErrorNotReady, "device not ready"),
    SIMGPU_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SIMGPU_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SIMGPU_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    SIMGPU_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SIMGPU_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    SIMGPU_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SIMGPU_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SIMGPU_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SIMGPU_ERROR(cudaErrorNotSupported, "operation not supported"),
    SIMGPU_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    SIMGPU_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    SIMGPU_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    SIMGPU_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    SIMGPU_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    SIMGPU_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SIMGPU_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    SIMGPU_ERROR(cudaErrorStreamCaptureImplicit,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    SIMGPU_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    SIMGPU_ERROR(cudaErrorStreamCaptureWrongThread,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    SIMGPU_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef SIMGPU_ERROR

const ErrorText* text_of(cudaError_t error) {
  for (const ErrorText& t : kTexts)
    if (t.error == error) return &t;
  return nullptr;
}

}  // namespace

cudaError_t sticky_error() { return sticky; }
void set_sticky_error(cudaError_t error) { sticky = error; }

cudaError_t record_error(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
  return error;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = sticky_error() ? sticky_error() : last;
  last = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return sticky_error() ? sticky_error() : last; }

const char* cudaGetErrorName(cudaError_t error) {
  const auto* t = text_of(error);
  return t ? t->name : "an error that the simulated GPU doesn't know";
}
const char* cudaGetErrorString(cudaError_t error) {
  const auto* t = text_of(error);
  return t ? t->text : "unrecognized error code";
}

}  // extern "C"
