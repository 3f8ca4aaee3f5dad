// Devices: how many, which is current, what they are.
#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "allocations.h"
#include "api.h"
#include "capture.h"
#include "counters.h"
#include "device.h"
#include "device_profile.h"
#include "scheduler.h"
#include "settings.h"
#include "shared_memory.h"
#include "stream.h"

namespace simgpu {
namespace {

thread_local int current = 0;

bool exists(int device) { return device >= 0 && device < settings().devices; }

using Peers = std::set<std::pair<int, int>>;
Peers& peers() {
  static auto& p = *new Peers;
  return p;
}

// The same in every process, as two processes on one machine find the same GPU; another one per device.
cudaUUID_t uuid(int device) {
  cudaUUID_t id{{"simulated GPU "}};
  id.bytes[15] = char(device);
  return id;
}

void describe(cudaDeviceProp& p, int device) {
  p = {};
  std::snprintf(p.name, sizeof p.name, "%s", kProfile.name);
  p.uuid = uuid(device);
  p.totalGlobalMem = settings().device_bytes;
  p.sharedMemPerBlock = kDefaultSharedMemory;
  p.sharedMemPerBlockOptin = kMostSharedMemory;
  p.sharedMemPerMultiprocessor = kProfile.shared_per_multiprocessor;
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  const int block[] = {1024, 1024, 64}, grid[] = {2147483647, 65535, 65535};
  std::memcpy(p.maxThreadsDim, block, sizeof block);
  std::memcpy(p.maxGridSize, grid, sizeof grid);
  p.maxThreadsPerMultiProcessor = kProfile.threads_per_multiprocessor;
  p.maxBlocksPerMultiProcessor = kProfile.blocks_per_multiprocessor;
  p.multiProcessorCount = kProfile.multiprocessors;
  p.major = kProfile.major;
  p.minor = kProfile.minor;
  p.l2CacheSize = int(kProfile.l2_bytes);
  p.totalConstMem = 65536;
  p.memoryBusWidth = 6144;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = p.concurrentKernels = p.canMapHostMemory = p.memoryPoolsSupported = 1;
  p.streamPrioritiesSupported = 1;
  p.pciBusID = device + 1;
}

bool attribute(int* value, cudaDeviceAttr a, int device) {
  cudaDeviceProp p;
  describe(p, device);
  switch (a) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrClockRate: *value = kProfile.clock_khz; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrPciBusId: *value = p.pciBusID; break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrIntegrated: *value = 0; break;
    default: return false;
  }
  return true;
}

}  // namespace

int current_device() { return current; }
void set_current_device(int device) { current = device; }

bool peer_access(int from, int to) { return from == to || peers().count({from, to}); }

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return record_error(*count ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* device) {
  if (!settings().devices) return record_error(cudaErrorNoDevice);
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return api([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    set_current_device(device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    describe(*properties, device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr a, int device) {
  return api([&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    if (!attribute(value, a, device)) fail("cudaDeviceGetAttribute of attribute %d is not modelled", int(a));
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api([&] {
    if (!exists(device) || length < 13) return cudaErrorInvalidValue;
    std::snprintf(text, size_t(length), "0000:%02x:00.0", device + 1);
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api([&] {
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api([&] {
    if (flags) return cudaErrorInvalidValue;
    if (!exists(peer) || peer == current_device()) return cudaErrorInvalidDevice;
    return peers().insert({current_device(), peer}).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api([&] {
    if (!exists(peer)) return cudaErrorInvalidDevice;
    return peers().erase({current_device(), peer}) ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api([&] {
    *total = settings().device_bytes;
    *free = *total - memory_use(current_device()).now;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([&] {
    const int device = current_device();
    if (const auto error = Capture::check_device_wait(device, "cudaDeviceSynchronize")) return error;
    ++counts.host_waits;
    wait_for_device(device, "cudaDeviceSynchronize");
    return sticky_error();
  });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

// For profilers, which there are none of.
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
