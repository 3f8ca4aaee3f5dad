/// The arithmetic of two-dimensional pooling.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu {

/// Tensors are dense: x and dx [n,h,w,c], y and dy [n,p,q,c].
struct PoolingShape {
  int64_t n, c, h, w, p, q;
  int64_t window_h, window_w, pad_h, pad_w, stride_h, stride_w;
  enum Kind { max, average_with_padding, average_without_padding } kind;
  bool propagates_nan;
};

template <class C>
std::vector<C> pool(const PoolingShape& t, const std::vector<C>& x);
/// x and y are used by max pooling alone: the gradient goes to the first element of the window that equals y.
template <class C>
std::vector<C> pool_backward(const PoolingShape& t, const std::vector<C>& x, const std::vector<C>& y,
                             const std::vector<C>& dy);

extern template std::vector<float> pool(const PoolingShape&, const std::vector<float>&);
extern template std::vector<double> pool(const PoolingShape&, const std::vector<double>&);
extern template std::vector<float> pool_backward(const PoolingShape&, const std::vector<float>&,
                                                 const std::vector<float>&, const std::vector<float>&);
extern template std::vector<double> pool_backward(const PoolingShape&, const std::vector<double>&,
                                                  const std::vector<double>&, const std::vector<double>&);

}  // namespace simgpu
