/// Not installed: which pixels a mean is taken over, and which means a pixel counts in, along one side of an image. CPU
/// and GPU kernels are written over these.
#pragma once
#include <tandem/ops/avg_pool2d.h>

#include <algorithm>
#include <cstdint>

namespace tandem::detail {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Window i covers [begin, end) and counts for `weight` of the mean's divisor; pixel p lies in windows [first, last).
struct FixedSide {
  int64_t size, windows, kernel, stride, padding;
  bool count_padding;
  constexpr int64_t begin(int64_t i) const { return std::max<int64_t>(0, i * stride - padding); }
  constexpr int64_t end(int64_t i) const { return std::min(size, i * stride - padding + kernel); }
  constexpr int64_t weight(int64_t i) const {
    const int64_t start = i * stride - padding;
    return count_padding ? std::min(start + kernel, size + padding) - start : end(i) - begin(i);
  }
  constexpr int64_t first(int64_t p) const { return std::max<int64_t>(0, ceil_div(p + padding - kernel + 1, stride)); }
  constexpr int64_t last(int64_t p) const { return std::min(windows, (p + padding) / stride + 1); }
};
struct AdaptiveSide {
  int64_t size, windows;
  constexpr int64_t begin(int64_t i) const { return i * size / windows; }
  constexpr int64_t end(int64_t i) const { return ceil_div((i + 1) * size, windows); }
  constexpr int64_t weight(int64_t i) const { return end(i) - begin(i); }
  constexpr int64_t first(int64_t p) const { return p * windows / size; }
  constexpr int64_t last(int64_t p) const { return ceil_div((p + 1) * windows, size); }
};

template <class Side>
struct Sides {
  Side rows, cols;
};
inline Sides<FixedSide> sides(const Tensor& x, const Tensor& y, const AvgPool2dWindow& w) {
  const Dims &xs = x.shape(), &ys = y.shape();
  return {{xs[2], ys[2], w.kernel.h, w.stride.h, w.padding.h, w.count_include_pad},
          {xs[3], ys[3], w.kernel.w, w.stride.w, w.padding.w, w.count_include_pad}};
}
inline Sides<AdaptiveSide> sides(const Tensor& x, const Tensor& y) {
  return {{x.shape()[2], y.shape()[2]}, {x.shape()[3], y.shape()[3]}};
}

}  // namespace tandem::detail
