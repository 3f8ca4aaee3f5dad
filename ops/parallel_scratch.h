/// Not installed: parallel loops whose threads each need scratch memory.
#pragma once
#include <tandem/core/parallel_for.h>
#include <tandem/core/tensor.h>

#include <algorithm>

namespace tandem::detail {

/// Calls f(scratch, begin, end) on disjoint ranges that cover [0, n), each with `elements` elements of T to itself. The
/// memory is taken by the calling thread, as much for every call: a warm step then needs no more however threads meet.
template <class T, class F>
void parallel_with_scratch(int64_t n, int64_t grain, int64_t elements, Device d, F&& f) {
  if (n <= 0) return;
  const int64_t ranges = std::clamp<int64_t>((n + grain - 1) / grain, 1, num_threads());
  const int64_t apart = int64_t(aligned(size_t(elements) * sizeof(T)) / sizeof(T));
  Tensor scratch = empty({ranges, apart}, {.dtype = dtype_of<T>, .device = d});
  T* p = scratch.ptr<T>();
  tandem::parallel_for(ranges, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(p + r * apart, n * r / ranges, n * (r + 1) / ranges);
  });
}

}  // namespace tandem::detail
