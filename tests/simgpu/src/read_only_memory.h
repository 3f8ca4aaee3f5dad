/// Constants of programs and libraries: the one memory of the host that kernels may read, as it is compiled into them.
#pragma once
#include <cstdint>

namespace simgpu {

/// Also where a thread stands (threadIdx and the like), which lies in the simulator.
bool is_read_only(uintptr_t address);

}  // namespace simgpu
