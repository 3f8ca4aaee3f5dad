/// Not installed: sums over the rows of matrices, several at once, in an order that depends on the sizes alone.
#pragma once
#include <tandem/core/parallel_for.h>
#include <tandem/core/tensor.h>
#include <tandem/ops/fold.h>

namespace tandem::detail {

/// What add(row, sums) adds to `width` sums for each row of x [rows, n]: f64 [width].
template <class F>
Tensor row_sums(const Tensor& x, int64_t width, F add) {
  const Parts parts(x.shape()[0], std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, x.shape()[1])));
  Tensor partial = zeros({parts.count, width}, {.dtype = Dtype::f64, .device = x.device()});
  auto* sums = partial.ptr<double>();
  tandem::parallel_for(parts.count, 2, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      for (int64_t r = parts.begin(k); r < parts.end(k); ++r) add(r, sums + k * width);
  });
  for (int64_t k = 1; k < parts.count; ++k)
    for (int64_t i = 0; i < width; ++i) sums[i] += sums[k * width + i];
  return partial.alias({width}, {1}, 0);
}

}  // namespace tandem::detail
