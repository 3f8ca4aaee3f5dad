#include "operation.h"

namespace simgpu {

void atomic_access(const void* p, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(p) % bytes)
    fail("an atomic operation on %zu bytes at %p, which is not aligned to them", bytes, p);
}

}  // namespace simgpu
