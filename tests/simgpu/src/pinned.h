/// Page-locked host memory. It has two addresses: the host's, whose pages are closed while a copy that the host hasn't
/// waited for uses them, and the executor's, always open.
#pragma once
#include <cstddef>
#include <cstdint>

#include "clock.h"

namespace simgpu {

/// nullptr where there are no more addresses. The memory holds NaN.
void* allocate_pinned(size_t bytes);
/// Fails loudly where p isn't the begin of a live allocation.
void release_pinned(const void* p);

/// A copy that was submitted as `time` of `lane`: until the host's clock has reached it, the host may read the source
/// of one to the device, and do nothing with the destination of one from it. Fails where an unordered copy uses the
/// bytes.
void put_in_flight(const void* p, size_t bytes, bool device_writes, uint32_t lane, const VectorClock& clock);
/// The host has waited for all that its clock holds.
void land(const VectorClock& host);

/// Says what is wrong about an access of the host to that address; returns where nothing is.
void explain_pinned_fault(uintptr_t address);

}  // namespace simgpu
