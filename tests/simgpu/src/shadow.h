/// The cells of device memory, and the checks that need them. Only in the checked mode.
#pragma once
#include <cstddef>
#include <cstdint>

#include "cell.h"

namespace simgpu {

/// Kernels report their accesses: code is loaded that was compiled so. Set before the first allocation.
extern bool checked;

/// The memory is allocated, and holds nothing; by the running operation, or by the host where none runs.
void shadow_allocate(uintptr_t begin, size_t bytes);
/// It is freed, and nothing may be about to use it.
void shadow_free(uintptr_t begin, size_t bytes);

/// Accesses of the running operation, in its name.
void shadow_read(const void* p, size_t bytes);
void shadow_write(const void* p, size_t bytes);
/// A copy moves what isn't initialised as well; between devices' memory, else see shadow_read and shadow_write.
void shadow_copy(const void* to, const void* from, size_t bytes);

/// An access of the running kernel's thread to device memory.
void check_device_access(const CheckedAccess& access);

}  // namespace simgpu
