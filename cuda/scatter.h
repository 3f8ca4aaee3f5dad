/// Not installed. Adding up what goes to the same place, always in the same order: sources are sorted by the place they
/// go to, and each place's sources are added one after the other. No atomics, and the order is that of the CPU.
#pragma once
#include <tandem/cuda/runtime.h>

namespace tandem::cuda_impl {

/// n sources in the order of the places that they go to, and in their own where it is one: (place << shift) | source.
/// Sources that go nowhere stand at the end, as kNowhere.
struct SortedSources {
  static constexpr uint64_t kNowhere = ~uint64_t(0);
  Tensor keys;  // i64, holding the bits
  int64_t n;
  int shift;
};

/// place: i64 [n], where each source goes; those outside [0, places) go nowhere.
SortedSources sort_sources(const Tensor& place, int64_t places);

}  // namespace tandem::cuda_impl
