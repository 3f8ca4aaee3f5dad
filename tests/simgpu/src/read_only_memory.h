/// Constants of programs and libraries: the one memory of the host that kernels may read, as it is compiled into them.
#pragma once
#include <cstdint>

namespace simgpu {

bool is_read_only(uintptr_t address);

}  // namespace simgpu
