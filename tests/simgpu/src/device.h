/// What devices may do with each other's memory.
#pragma once

namespace simgpu {

/// Kernels on `from` may use memory of `to`.
bool peer_access(int from, int to);

}  // namespace simgpu
