/// Not installed: what losses against class indices check and count.
#pragma once
#include <tandem/ops/channel_rows.h>

namespace tandem::detail {

/// Class indices must be i64 and of the shape that x has without its classes. Throws DtypeError, ShapeError.
inline void check_class_indices(const char* op, const Tensor& x, const Tensor& target) {
  check<DtypeError>(target.dtype() == Dtype::i64, "[", op, "] class indices are i64, got ", target.dtype());
  check<ShapeError>(x.dim() < 2 || target.dim() < 1 || x.shape()[0] == target.shape()[0], "[", op, "] logits for ",
                    x.shape()[0], " rows, targets for ", target.shape()[0]);
  check<ShapeError>(target.shape() == without_channels(x.shape()), "[", op, "] input ", x.shape(),
                    " wants class indices of shape ", without_channels(x.shape()), ", got ", target.shape());
}

inline void check_class_input(const char* op, const Tensor& x, const Tensor& weight) {
  check<DtypeError>(is_floating(x.dtype()), "[", op, "] takes a floating input, got ", x.dtype());
  check<ShapeError>(x.dim() >= 1, "[", op, "] the input has no dimension of classes");
  if (!weight) return;
  const int64_t c = x.shape()[channel_dim(x)];
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
