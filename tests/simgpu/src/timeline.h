/// When everything would happen on a real GPU, by its profile: a bound from bytes and arithmetic. Streams overlap
/// without disturbing each other.
#pragma once
#include <cstdint>

#include "stream.h"

namespace simgpu {

/// The calling thread's time. A call that queues work takes some; one that waits ends no earlier than what it waited
/// for.
double host_time_us();
void host_queues(const Item& item);
void host_waits_until(double time_us);

/// What the item takes of its device, alone.
double duration_us(const Item& item);

/// Sets the item's end, from its begin; records it where a timeline is recorded.
void note_run(Item& item, double duration_us);

}  // namespace simgpu
