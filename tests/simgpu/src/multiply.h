/// The matrix product that cuBLASLt's matmul and cuDNN's convolutions are computed by.
#pragma once
#include <cstddef>

#include "element.h"

namespace simgpu {

/// A matrix in memory: the element in row i and column j stands at data[i * row + j * column].
struct Operand {
  const void* data;
  Element element;
  ptrdiff_t row, column;
  bool tf32 = false;  // the values are rounded so first
};

/// c[i + j * ldc] += the sum over p of a(i, p) b(p, j), for i < m, j < n, p < k. C is the type that the operands'
/// elements are computed in. The order of the sum depends on k alone.
template <class C>
void multiply_add(size_t m, size_t n, size_t k, const Operand& a, const Operand& b, C* c, size_t ldc);

extern template void multiply_add(size_t, size_t, size_t, const Operand&, const Operand&, float*, size_t);
extern template void multiply_add(size_t, size_t, size_t, const Operand&, const Operand&, double*, size_t);

}  // namespace simgpu
