// Device memory and pinned host memory.
#include "allocations.h"
#include "api.h"
#include "arena.h"
#include "capture.h"
#include "counters.h"
#include "faults.h"
#include "pinned.h"
#include "scheduler.h"
#include "settings.h"
#include "stream.h"

namespace simgpu {

bool is_device_memory(const void* p, size_t bytes, int* device) {
  const Allocation* a = live_allocation(p, bytes);
  if (a && device) *device = a->device;
  return a != nullptr;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return api([&] {
    if (const auto error = Capture::check_unsafe_call("cudaMalloc")) return error;
    *p = bytes && !fails_allocation() ? allocate(current_device(), bytes) : nullptr;
    counts.allocations += bytes != 0;
    return bytes && !*p ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFree(void* p) {
  return api([&] {
    if (const auto error = Capture::check_unsafe_call("cudaFree")) return error;
    if (!p) return cudaSuccess;
    // It waits for all work of the device, which may use the memory.
    if (const Allocation* a = live_allocation(p, 0)) wait_for_device(a->device, "cudaFree");
    release(p);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (s.capture) fail("cudaMallocAsync of a capturing stream is not modelled");
    *p = nullptr;
    if (!bytes) return cudaSuccess;
    ++counts.allocations;
    if (!fails_allocation()) *p = allocate(s.device, bytes, true);
    if (!*p) return cudaErrorMemoryAllocation;
    submit(s, {.name = "cudaMallocAsync",
               .step =
                   [p = *p] {
                     prepare_allocation(p);
                     return Step::done;
                   },
               .kind = Kind::allocation});
    return cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (s.capture) fail("cudaFreeAsync on a capturing stream is not modelled");
    if (!p) return cudaSuccess;
    const Allocation* a = live_allocation(p, 0);
    if (!a) fail("cudaFreeAsync of %p, which is no live allocation", p);
    submit(s, {.name = "cudaFreeAsync",
               .step =
                   [p] {
                     release(p);
                     return Step::done;
                   },
               .kind = Kind::allocation});
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, cudaHostAllocDefault); }

cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned flags) {
  return api([&] {
    if (flags & ~unsigned(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
      return cudaErrorInvalidValue;
    if (const auto error = Capture::check_unsafe_call("cudaHostAlloc")) return error;
    counts.pinned_allocations += bytes != 0;
    *p = bytes ? allocate_pinned(bytes) : nullptr;
    return bytes && !*p ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* p) {
  return api([&] {
    if (const auto error = Capture::check_unsafe_call("cudaFreeHost")) return error;
    if (!p) return cudaSuccess;
    for (int d = 0; d < settings().devices; ++d) wait_for_device(d, "cudaFreeHost");
    release_pinned(p);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  return api([&] {
    *attributes = {};
    attributes->device = -2;  // as CUDA says for memory that it doesn't know
    attributes->hostPointer = const_cast<void*>(p);
    if (const Allocation* a = in_arena(reinterpret_cast<uintptr_t>(p)) ? live_allocation(p, 1) : nullptr) {
      *attributes = {};
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = a->device;
      attributes->devicePointer = const_cast<void*>(p);
    } else if (is_pinned_memory(p, 1)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = current_device();
      attributes->devicePointer = const_cast<void*>(p);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
