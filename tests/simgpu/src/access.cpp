#include "access.h"

#include <cuda_runtime.h>

#include "arena.h"
#include "fail.h"
#include "operation.h"
#include "read_only_memory.h"
#include "shadow.h"
#include "shared_shadow.h"

namespace simgpu {
namespace {

// Where a thread stands: threadIdx and the like. The linker names the ends of a section.
extern "C" const char __start_simgpu_place[] __attribute__((visibility("hidden")));
extern "C" const char __stop_simgpu_place[] __attribute__((visibility("hidden")));

bool is_place(uintptr_t address) {
  const auto begin = reinterpret_cast<uintptr_t>(__start_simgpu_place);
  return address - begin < reinterpret_cast<uintptr_t>(__stop_simgpu_place) - begin;
}

void check_host_access(const CheckedAccess& a) {
  const auto* p = reinterpret_cast<const void*>(a.address);
  if (is_pinned_memory(p, a.bytes)) return;
  if (a.kind != AccessKind::read)
    fail_at(a.return_address, "the kernel writes %zu bytes of the host's memory at %p", a.bytes, p);
  if (!is_read_only(a.address))
    fail_at(a.return_address, "the kernel reads %zu bytes of the host's memory at %p", a.bytes, p);
}

}  // namespace

void check_access(uintptr_t address, size_t bytes, AccessKind kind, const void* return_address) {
  const CheckedAccess a{address, bytes, kind, false, return_address};
  if (is_place(address)) return;
  if (in_arena(address)) return check_device_access(a);
  if (is_kernel_frame(reinterpret_cast<void*>(address))) return;  // its locals
  if (check_shared_access(a)) return;
  check_host_access(a);
}

void check_aligned_access(uintptr_t address, size_t bytes, AccessKind kind, const void* return_address) {
  if (address % bytes)
    fail_at(return_address, "misaligned access of %zu bytes at %p", bytes, reinterpret_cast<void*>(address));
  check_access(address, bytes, kind, return_address);
}

void atomic_access(const void* p, size_t bytes, const void* return_address) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (address % bytes)
    fail_at(return_address, "an atomic operation on %zu bytes at %p, which is not aligned to them", bytes, p);
  if (checked) check_access(address, bytes, AccessKind::atomic, return_address);
}

}  // namespace simgpu
