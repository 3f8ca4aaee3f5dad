/// Not installed: what ops on images share. Their kernels take channels-last batches; a single image [c, h, w] is a
/// batch of one.
#pragma once
#include <tandem/core/copy.h>

namespace tandem::detail {

/// Throws ShapeError naming the op unless x is [n, c, h, w] or [c, h, w].
inline void require_images(const char* op, const Tensor& x) {
  check<ShapeError>(x.dim() == 4 || x.dim() == 3, "[", op, "] takes [n,c,h,w] or [c,h,w], got ", x.shape());
}

/// [c, h, w] as [1, c, h, w], sharing memory; four dimensions stay.
inline Tensor with_batch(const Tensor& x) {
  if (x.dim() == 4) return x;
  Dims shape = x.shape(), strides = x.strides();
  strides.insert(0, shape[0] * strides[0]);
  shape.insert(0, 1);
  return x.alias(shape, strides, x.impl()->offset);
}

/// The same values as a channels-last batch.
inline Tensor as_images(const Tensor& x) { return as_layout(with_batch(x), Layout::channels_last); }

/// A result for an input of `dims` dimensions: as it is for a batch, a row-major [c, h, w] for a single image.
inline Tensor as_result(const Tensor& y, int dims) {
  if (dims == 4) return y;
  Tensor image = as_layout(y, Layout::row_major);
  Dims shape = image.shape(), strides = image.strides();
  shape.erase(0);
  strides.erase(0);
  return image.alias(shape, strides, image.impl()->offset);
}

/// Calls f(Out) with a channels-last output, which then is in `o`.
template <class F>
void write_images(const Out& o, F&& f) {
  in_layout(Out{with_batch(o.t), o.beta}, Layout::channels_last, f);
}

}  // namespace tandem::detail
