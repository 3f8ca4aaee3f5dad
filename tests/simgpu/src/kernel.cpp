// Kernels: what a launch may ask for, and the operation that runs one.
#include <memory>
#include <unordered_map>

#include "allocations.h"
#include "api.h"
#include "arena.h"
#include "block.h"
#include "capture.h"
#include "device.h"
#include "device_profile.h"
#include "faults.h"
#include "shared_memory.h"
#include "stream.h"
#include "symbols.h"

namespace simgpu {
namespace {

constexpr size_t kMostArgumentBytes = 4096;

struct Kernel {
  std::string name;
  SharedMemory shared;
  size_t most_dynamic_bytes = kDefaultSharedMemory;

  explicit Kernel(const void* function) : name(function_name(function)), shared(function) {}
};

Kernel& kernel_of(const void* function) {
  static auto& all = *new std::unordered_map<const void*, std::unique_ptr<Kernel>>;
  auto& k = all[function];
  if (!k) k = std::make_unique<Kernel>(function);
  return *k;
}

cudaError_t check_dimensions(dim3 grid, dim3 threads) {
  const uint64_t size = uint64_t(threads.x) * threads.y * threads.z;
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  if (!size || size > 1024 || threads.z > 64 || !blocks || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  if (blocks > 0xffffffffu) fail("a grid of %lu blocks is not modelled", blocks);
  return cudaSuccess;
}

void check_pointer(const void* p, const std::string& kernel, int device) {
  if (!p || is_pinned_memory(p, 0)) return;
  const Allocation* a = in_arena(reinterpret_cast<uintptr_t>(p)) ? live_allocation(p, 0) : nullptr;
  if (!a) fail("kernel %s is launched with the pointer %p, which is in no live allocation", kernel.c_str(), p);
  if (!peer_access(device, a->device))
    fail("kernel %s is launched on device %d with a pointer to memory of device %d", kernel.c_str(), device, a->device);
}

struct KernelLaunch {
  Kernel& kernel;
  std::shared_ptr<const void> arguments;
  void (*run)(const void*);
  dim3 grid, threads;
  size_t dynamic_bytes;

  Step operator()() const {
    kernel.shared.begin_launch(dynamic_bytes);
    run_grid(
        {kernel.name.c_str(), run, arguments.get(), grid, threads},
        [](void* shared) { static_cast<SharedMemory*>(shared)->begin_block(); },
        [](void* shared) { static_cast<SharedMemory*>(shared)->end_block(); }, &kernel.shared);
    return Step::done;
  }
};

}  // namespace

cudaError_t launch_kernel(const cudaLaunchConfig_t& config, const KernelCall& call) {
  return api([&] {
    Stream& s = stream_of(config.stream);
    Kernel& k = kernel_of(call.function);
    if (s.device != current_device()) return cudaErrorInvalidResourceHandle;
    if (s.capture && !s.capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
    if (config.numAttrs) fail("launch attributes are not modelled, kernel %s has some", k.name.c_str());
    if (const auto error = check_dimensions(config.gridDim, config.blockDim)) return error;
    if (config.dynamicSmemBytes > k.most_dynamic_bytes || call.argument_bytes > kMostArgumentBytes)
      return cudaErrorInvalidValue;
    if (refuses_launch()) return cudaErrorLaunchOutOfResources;
    std::vector<const void*> pointers;
    for (size_t i = 0; i < call.pointer_count; ++i) {
      check_pointer(call.pointers[i], k.name, s.device);
      if (call.pointers[i]) pointers.push_back(call.pointers[i]);
    }
    const KernelLaunch run{k, call.arguments, call.run, config.gridDim, config.blockDim, config.dynamicSmemBytes};
    Operation op{.name = k.name, .step = run, .pointers = std::move(pointers), .kind = Kind::kernel};
    if (!s.capture && fails_kernel())
      op.step = [] {
        set_sticky_error(cudaErrorLaunchFailure);
        return Step::done;
      };
    submit(s, std::move(op));
    return cudaSuccess;
  });
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return api([&] {
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
      fail("cudaFuncSetAttribute of attribute %d is not modelled", int(attribute));
    if (value < 0 || size_t(value) > kMostSharedMemory) return cudaErrorInvalidValue;
    kernel_of(kernel).most_dynamic_bytes = std::max(size_t(value), kDefaultSharedMemory);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return api([&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->maxDynamicSharedSizeBytes = int(kernel_of(kernel).most_dynamic_bytes);
    return cudaSuccess;
  });
}

/// By threads and dynamic shared memory alone: registers and static arrays aren't known here.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads,
                                                                   size_t dynamic_bytes, unsigned) {
  return api([&] {
    if (threads < 1 || threads > 1024) return cudaErrorInvalidValue;
    *blocks =
        std::min(kProfile.blocks_per_multiprocessor, kProfile.threads_per_multiprocessor / ((threads + 31) / 32 * 32));
    if (dynamic_bytes) *blocks = std::min(*blocks, int(kProfile.shared_per_multiprocessor / (dynamic_bytes + 1024)));
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, dynamic_bytes,
                                                                cudaOccupancyDefault);
}

}  // extern "C"
