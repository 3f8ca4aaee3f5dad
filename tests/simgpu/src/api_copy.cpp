// Copies and fills, always of a stream.
#include <cstring>

#include "allocations.h"
#include "api.h"
#include "arena.h"
#include "capture.h"
#include "stream.h"

namespace simgpu {
namespace {

bool is_device_address(const void* p) { return in_arena(reinterpret_cast<uintptr_t>(p)); }

void check_device_range(const void* p, size_t bytes, int device, const char* call) {
  const Allocation* a = live_allocation(p, bytes);
  if (!a) fail("%s of %zu bytes at %p, which lie in no live allocation", call, bytes, p);
  if (a->device != device) fail("%s by device %d of memory of device %d", call, device, a->device);
}

void check_host_range(const void* p, size_t bytes, const char* call) {
  if (!is_pinned_memory(p, bytes)) fail("%s of %zu bytes with pageable host memory %p: it would wait", call, bytes, p);
}

cudaError_t copy(Stream& s, const char* name, void* to, const void* from, size_t bytes) {
  if (s.capture && !s.capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
  submit(s, {.name = name,
             .step =
                 [=] {
                   std::memcpy(executor_view(to), executor_view(from), bytes);
                   return Step::done;
                 },
             .accesses = {{from, bytes, false}, {to, bytes, true}},
             .kind = Kind::copy});
  return cudaSuccess;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (!bytes) return cudaSuccess;
    const bool to_device = is_device_address(to), from_device = is_device_address(from);
    if (!to_device && !from_device) return cudaErrorInvalidValue;
    const auto found =
        to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice) : cudaMemcpyDeviceToHost;
    if (kind != cudaMemcpyDefault && kind != found) return cudaErrorInvalidMemcpyDirection;
    const char* call = "cudaMemcpyAsync";
    to_device ? check_device_range(to, bytes, s.device, call) : check_host_range(to, bytes, call);
    from_device ? check_device_range(from, bytes, s.device, call) : check_host_range(from, bytes, call);
    return copy(s, to_device ? (from_device ? "copy on the device" : "copy to the device") : "copy to the host", to,
                from, bytes);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (!bytes) return cudaSuccess;
    if (s.device != to_device && s.device != from_device) return cudaErrorInvalidValue;
    check_device_range(to, bytes, to_device, "cudaMemcpyPeerAsync");
    check_device_range(from, bytes, from_device, "cudaMemcpyPeerAsync");
    return copy(s, "copy between devices", to, from, bytes);
  });
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (!bytes) return cudaSuccess;
    if (s.capture && !s.capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
    check_device_range(p, bytes, s.device, "cudaMemsetAsync");
    submit(s, {.name = "fill",
               .step =
                   [=] {
                     std::memset(p, value, bytes);
                     return Step::done;
                   },
               .accesses = {{p, bytes, true}},
               .kind = Kind::fill});
    return cudaSuccess;
  });
}

}  // extern "C"
