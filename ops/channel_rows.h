/// Not installed: a tensor [c], [n,c] or [n,c,d1,...] as rows [m,c], its channels (a loss's classes) side by side and
/// the rows in row-major order of the other dimensions. A channels-last tensor is that already.
#pragma once
#include <tandem/core/copy.h>

namespace tandem::detail {

inline int channel_dim(const Tensor& x) { return x.dim() == 1 ? 0 : 1; }

/// The shape without its channels: for class indices.
inline Dims without_channels(const Dims& shape) {
  Dims r = shape;
  r.erase(shape.size() == 1 ? 0 : 1);
  return r;
}

/// A view of x with the channels as the last dimension; dense where x is channels-last or they are last anyway.
inline Tensor channels_last_view(const Tensor& x) {
  Dims shape = x.shape(), strides = x.strides();
  const int c = channel_dim(x);
  shape.erase(c);
  strides.erase(c);
  shape.push_back(x.shape()[c]);
  strides.push_back(x.strides()[c]);
  return x.alias(shape, strides, x.impl()->offset);
}

/// x as rows [m,c], copied only where its memory is not in that order.
inline Tensor channel_rows(const Tensor& x) {
  if (x.dim() == 2 && x.is_contiguous()) return x;
  Tensor dense = as_layout(channels_last_view(x), Layout::row_major);
  const int64_t c = dense.shape().back(), m = without_channels(x.shape()).numel();
  return dense.alias({m, c}, {c, 1}, dense.impl()->offset);
}

/// Calls f(Out) with o as rows [m,c]: o's own memory where it is in that order, else scratch that is then copied or
/// added into o.
template <class F>
void in_channel_rows(Out o, F&& f) {
  Tensor target = channels_last_view(o.t);
  const int64_t c = target.shape().back(), m = without_channels(o.t.shape()).numel();
  if (target.is_contiguous()) return f(Out{target.alias({m, c}, {c, 1}, target.impl()->offset), o.beta});
  Tensor rows = empty({m, c}, {.dtype = o.t.dtype(), .device = o.t.device()});
  f(Out{rows, 0});
  copy_into({target, o.beta}, rows.alias(target.shape(), dense_strides(target.shape(), Layout::row_major), 0));
}

/// A parameter as kernels take it: row-major, or undefined where it is.
inline Tensor dense_or_none(const Tensor& t) { return t ? as_layout(t, Layout::row_major) : t; }

}  // namespace tandem::detail
