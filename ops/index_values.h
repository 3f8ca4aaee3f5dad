/// Not installed: what the ops that take indices share, on the CPU.
#pragma once
#include <tandem/core/copy.h>

namespace tandem::detail {

/// The indices as i64, row-major. Throws DtypeError unless they are i64 or i32.
inline Tensor index_values(const char* op, const Tensor& index) {
  check<DtypeError>(index.dtype() == Dtype::i64 || index.dtype() == Dtype::i32, "[", op,
                    "] indices are i64 or i32, got ", index.dtype());
  if (index.dtype() == Dtype::i64) return as_layout(index, Layout::row_major);
  return copy_of(index, {.dtype = Dtype::i64, .device = index.device()});
}

/// Throws Error, naming the op this thread last entered, for the first index outside [0, size). By kernels, before they
/// write anything.
inline void require_in_range(const Tensor& index, int dim, int64_t size) {
  const int64_t* p = index.ptr<int64_t>();
  const int64_t n = index.numel();
  for (int64_t i = 0; i < n; ++i)
    check(uint64_t(p[i]) < uint64_t(size), "[", context().op, "] index ", p[i], " (number ", i,
          ") is out of range for dimension ", dim, " of size ", size);
}

}  // namespace tandem::detail
