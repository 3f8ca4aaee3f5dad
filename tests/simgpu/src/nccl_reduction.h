/// How NCCL combines the ranks' values: in their own type, rounded after each addition, one rank after the other.
#pragma once
#include <nccl.h>

#include <cstdint>
#include <vector>

namespace simgpu {

struct Reduction {
  enum Kind : int32_t { sum, product, maximum, minimum, average, scaled_sum } kind = sum;
  alignas(8) unsigned char scalar[8] = {};  // of scaled_sum, as one element
  const void* scalar_on_device = nullptr;   // read while the collective runs, in place of `scalar`
};

/// What a rank contributes: its values, or what the reduction makes of them before they meet the others'.
void contribute(const Reduction& r, ncclDataType_t type, void* to, const void* from, size_t count, int ranks);

/// to[i] = the reduction over the ranks' contributions, in that order.
void reduce(const Reduction& r, ncclDataType_t type, void* to, const std::vector<const void*>& from, size_t count);

}  // namespace simgpu
