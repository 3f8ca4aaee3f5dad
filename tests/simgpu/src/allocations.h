/// The allocations of device memory, live and freed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace simgpu {

struct Allocation {
  uintptr_t begin = 0;
  size_t bytes = 0;
  int device = 0;
  uint64_t number = 0;  // of all, from 1
  bool freed = false;

  uintptr_t end() const { return begin + bytes; }
};

/// nullptr where the device's memory is used up. The memory holds NaN, or not yet where `later` says that
/// prepare_allocation follows in the order of a stream.
void* allocate(int device, size_t bytes, bool later = false);
void prepare_allocation(const void* p);

/// Fails loudly where p isn't the begin of a live allocation, or memory after its end was written.
void release(const void* p);

/// The allocation that holds the address, live or else freed; else the one before it; nullptr where there is none.
const Allocation* find_allocation(uintptr_t address);

/// The live allocation that holds all these bytes, or ends where they (none) begin; nullptr without one.
const Allocation* live_allocation(const void* p, size_t bytes);

struct MemoryUse {
  size_t now, peak;
};
MemoryUse memory_use(int device);
/// Peaks count from what is in use now.
void reset_peaks();

}  // namespace simgpu
