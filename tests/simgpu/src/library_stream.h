/// Where a library's call goes: its handle, its stream and the calling thread must be of one device, and well.
#pragma once
#include "api.h"
#include "operation.h"
#include "refusal.h"

namespace simgpu {

/// nullptr, with the reason as the last refusal, where they aren't.
inline Stream* find_stream(const char* function, int handle_device, cudaStream_t stream) {
  Stream& s = stream_of(stream);
  if (const cudaError_t error = sticky_error()) {
    remember_refusal("%s: the device has failed before: %s", function, cudaGetErrorName(error));
    return nullptr;
  }
  if (handle_device != current_device()) {
    remember_refusal("%s: the handle was created on device %d, and device %d is current", function, handle_device,
                     current_device());
    return nullptr;
  }
  if (device_of(s) != current_device()) {
    remember_refusal("%s: the stream is of device %d, and device %d is current", function, device_of(s),
                     current_device());
    return nullptr;
  }
  return &s;
}

}  // namespace simgpu
