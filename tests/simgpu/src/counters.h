/// What the runtime counts, for simgpu.h.
#pragma once
#include <simgpu/simgpu.h>

#include "stream.h"

namespace simgpu {

extern simgpu_counts counts;

/// A call has queued the item; or a launch of a graph has it as a node.
void count_call(const Item& item);
void count_node();

/// The item has run, for so long by the estimate.
void count_run(const Item& item, double device_us);

}  // namespace simgpu
