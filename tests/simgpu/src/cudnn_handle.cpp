// cuDNN's handles and the words for its codes.
#include <cstdio>

#include "cudnn_descriptors.h"
#include "refusal.h"

namespace simgpu {

LiveObjects<cudnnHandle_t, DnnHandle>& dnn_handles() {
  static auto& all = *new LiveObjects<cudnnHandle_t, DnnHandle>("handle");
  return all;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  std::lock_guard lock(runtime_mutex());
  if (!handle) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: nowhere to put the handle", __func__);
  *handle = dnn_handles().add({.device = current_device()});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  std::lock_guard lock(runtime_mutex());
  dnn_handles().remove(handle, __func__);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  std::lock_guard lock(runtime_mutex());
  DnnHandle* h = dnn_handles().find(handle, __func__);
  if (!h) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle", __func__);
  if (const int device = device_of(stream_of(stream)); device != h->device)
    return refuse(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "%s: a stream of device %d for a handle of device %d",
                  __func__, device, h->device);
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  if (!h || !stream) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, or no place for the stream", __func__);
  *stream = h->stream;
  return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH: return "CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_ALLOC_FAILED: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_UNKNOWN_STATUS";
  }
}

void cudnnGetLastErrorString(char* message, size_t bytes) {
  if (message && bytes) std::snprintf(message, bytes, "%s", last_refusal().c_str());
}

}  // extern "C"
