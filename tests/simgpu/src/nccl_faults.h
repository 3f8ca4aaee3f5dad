/// Faults that tests have planted in ranks (simgpu/nccl_faults.h).
#pragma once
#include <chrono>

namespace simgpu {

struct RankFault {
  bool stopped = false;
  std::chrono::duration<double, std::milli> delay{0};
};
/// Under the runtime's lock.
RankFault fault_of(int rank);

}  // namespace simgpu
