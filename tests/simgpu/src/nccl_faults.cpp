#include "nccl_faults.h"

#include <simgpu/nccl_faults.h>

#include <map>
#include <mutex>

#include "nccl_communicator.h"

namespace simgpu {
namespace {

std::map<int, RankFault>& faults() {
  static auto& all = *new std::map<int, RankFault>;
  return all;
}

}  // namespace

RankFault fault_of(int rank) {
  const auto found = faults().find(rank);
  return found == faults().end() ? RankFault{} : found->second;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

void simgpu_nccl_hang_rank(int rank) {
  std::lock_guard lock(runtime_mutex());
  faults()[rank].stopped = true;
}
void simgpu_nccl_lose_rank(int rank) {
  std::lock_guard lock(runtime_mutex());
  faults()[rank].stopped = true;
  lose_rank(rank);
}
void simgpu_nccl_slow_link(int rank, double milliseconds) {
  std::lock_guard lock(runtime_mutex());
  faults()[rank].delay = std::chrono::duration<double, std::milli>(milliseconds);
}
void simgpu_nccl_mend(void) {
  std::lock_guard lock(runtime_mutex());
  faults().clear();
}

}  // extern "C"
