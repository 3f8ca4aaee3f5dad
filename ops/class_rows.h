/// Not installed: what losses over classes share. A tensor [c], [n,c] or [n,c,d1,...] is worked on as rows [m,c] with
/// the classes side by side, rows in the order of the target's elements.
#pragma once
#include <tandem/core/copy.h>

namespace tandem::detail {

inline int class_dim(const Tensor& x) { return x.dim() == 1 ? 0 : 1; }

/// The shape without its classes: that of class indices.
inline Dims without_classes(const Dims& shape) {
  Dims r = shape;
  r.erase(shape.size() == 1 ? 0 : 1);
  return r;
}

/// A view of x with the classes last; dense where x is channels-last or has no dimensions behind its classes.
inline Tensor classes_last(const Tensor& x) {
  Dims shape = x.shape(), strides = x.strides();
  const int c = class_dim(x);
  shape.erase(c);
  strides.erase(c);
  shape.push_back(x.shape()[c]);
  strides.push_back(x.strides()[c]);
  return x.alias(shape, strides, x.impl()->offset);
}

/// x as rows [m,c], copied only where its memory is not in that order.
inline Tensor class_rows(const Tensor& x) {
  if (x.dim() == 2 && x.is_contiguous()) return x;
  Tensor dense = as_layout(classes_last(x), Layout::row_major);
  const int64_t c = dense.shape().back(), m = without_classes(x.shape()).numel();
  return dense.alias({m, c}, {c, 1}, dense.impl()->offset);
}

/// Calls f(Out) with o as rows [m,c]: o's own memory where it is in that order, else scratch that is then copied or
/// added into o.
template <class F>
void in_class_rows(Out o, F&& f) {
  Tensor target = classes_last(o.t);
  const int64_t c = target.shape().back(), m = without_classes(o.t.shape()).numel();
  if (target.is_contiguous()) return f(Out{target.alias({m, c}, {c, 1}, target.impl()->offset), o.beta});
  Tensor rows = empty({m, c}, {.dtype = o.t.dtype(), .device = o.t.device()});
  f(Out{rows, 0});
  copy_into({target, o.beta}, rows.alias(target.shape(), dense_strides(target.shape(), Layout::row_major), 0));
}

/// Class indices must be i64 and of the shape that x has without its classes. Throws DtypeError, ShapeError.
inline void check_class_indices(const char* op, const Tensor& x, const Tensor& target) {
  check<DtypeError>(target.dtype() == Dtype::i64, "[", op, "] class indices are i64, got ", target.dtype());
  check<ShapeError>(x.dim() < 2 || target.dim() < 1 || x.shape()[0] == target.shape()[0], "[", op, "] logits for ",
                    x.dim() ? x.shape()[0] : 0, " rows, targets for ", target.dim() ? target.shape()[0] : 0);
  check<ShapeError>(target.shape() == without_classes(x.shape()), "[", op, "] input ", x.shape(),
                    " wants class indices of shape ", without_classes(x.shape()), ", got ", target.shape());
}

inline void check_class_input(const char* op, const Tensor& x, const Tensor& weight) {
  check<DtypeError>(is_floating(x.dtype()), "[", op, "] takes a floating input, got ", x.dtype());
  check<ShapeError>(x.dim() >= 1, "[", op, "] the input has no dimension of classes");
  if (!weight) return;
  const int64_t c = x.shape()[class_dim(x)];
  check<ShapeError>(weight.dim() == 1 && weight.shape()[0] == c, "[", op, "] ", c, " classes, weight of shape ",
                    weight.shape());
  check<DtypeError>(weight.dtype() == x.dtype() || (is_half(x.dtype()) && weight.dtype() == Dtype::f32), "[", op,
                    "] input is ", x.dtype(), ", weight ", weight.dtype());
}

/// The weights of the rows that count, summed (1 each without weights). Throws Error for a target that is no class.
template <class T>
double total_weight(const char* op, const int64_t* target, int64_t m, int64_t c, const T* weight,
                    int64_t ignore_index) {
  double total = 0;
  for (int64_t i = 0; i < m; ++i) {
    const int64_t k = target[i];
    if (k == ignore_index) continue;
    check(k >= 0 && k < c, "[", op, "] target ", k, " of row ", i, " is none of the ", c, " classes");
    total += weight ? double(weight[k]) : 1;
  }
  return total;
}

}  // namespace tandem::detail
