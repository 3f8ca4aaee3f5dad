/// Where the accesses that kernels report go: to device memory, shared memory, their stacks, or what is no memory of a
/// GPU.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cell.h"
#include "fiber.h"

namespace simgpu {

/// `frame` is an address on the caller's stack: threads of kernels have stacks of their own, all others are the host.
inline bool is_kernel_frame(const void* frame) {
  return reinterpret_cast<uintptr_t>(frame) - fiber_stacks.begin < fiber_stacks.bytes;
}

void check_access(uintptr_t address, size_t bytes, AccessKind kind, const void* return_address);
/// One whose type promises its alignment.
void check_aligned_access(uintptr_t address, size_t bytes, AccessKind kind, const void* return_address);

}  // namespace simgpu
