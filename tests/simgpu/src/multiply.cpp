#include "multiply.h"

#include <algorithm>
#include <vector>

#include "operation.h"

namespace simgpu {
namespace {

// A tile of kRows x kColumns sums stays in registers while kDepth products are added to each. Both operands are brought
// into the order in which the tile's loop reads them, with zeros where the matrix ends.
constexpr size_t kVectorBytes = 32, kVectors = 2, kColumns = 4, kDepth = 256;

template <class C>
constexpr size_t kLanes = kVectorBytes / sizeof(C);
template <class C>
constexpr size_t kRows = kVectors* kLanes<C>;

template <class C, class T>
C read(const T& x, bool tf32) {
  if constexpr (std::is_same_v<T, float>) {
    return tf32 ? to_tf32(x) : x;
  } else {
    return C(value(x));
  }
}

// to[p * width + i] = the element i after `first`, p deep: `along` and `deep` are the strides of i and p.
template <class C, class T>
void pack(C* to, const T* first, ptrdiff_t along, ptrdiff_t deep, size_t count, size_t depth, size_t width, bool tf32) {
  if (along == 1) {
    for (size_t p = 0; p < depth; ++p) {
      const T* from = first + ptrdiff_t(p) * deep;
      for (size_t i = 0; i < count; ++i) to[p * width + i] = read<C>(from[i], tf32);
      for (size_t i = count; i < width; ++i) to[p * width + i] = 0;
    }
    return;
  }
  for (size_t i = 0; i < width; ++i) {
    const T* from = first + ptrdiff_t(i) * along;
    for (size_t p = 0; p < depth; ++p) to[p * width + i] = i < count ? read<C>(from[ptrdiff_t(p) * deep], tf32) : C(0);
  }
}

template <class C>
void pack(C* to, const Operand& o, ptrdiff_t first, ptrdiff_t along, ptrdiff_t deep, size_t count, size_t depth,
          size_t width) {
  with_element(o.element, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<Compute<T>, C>) {
      pack(to, static_cast<const T*>(o.data) + first, along, deep, count, depth, width, o.tf32);
    } else {
      fail("a product of %s in another precision", name_of(o.element));
    }
  });
}

template <class C>
void add_tile(const C* left, const C* right, size_t depth, C* c, size_t ldc, size_t rows, size_t columns) {
  typedef C Vector __attribute__((vector_size(kVectorBytes)));
  Vector sum[kColumns][kVectors] = {};
  for (size_t p = 0; p < depth; ++p) {
    for (size_t v = 0; v < kVectors; ++v) {
      Vector a;
      std::memcpy(&a, left + p * kRows<C> + v * kLanes<C>, sizeof a);
      for (size_t j = 0; j < kColumns; ++j) sum[j][v] += a * right[p * kColumns + j];
    }
  }
  C sums[kColumns][kRows<C>];
  static_assert(sizeof sums == sizeof sum);
  std::memcpy(sums, sum, sizeof sums);
  for (size_t j = 0; j < columns; ++j)
    for (size_t i = 0; i < rows; ++i) c[j * ldc + i] += sums[j][i];
}

}  // namespace

template <class C>
void multiply_add(size_t m, size_t n, size_t k, const Operand& a, const Operand& b, C* c, size_t ldc) {
  const size_t panels = (n + kColumns - 1) / kColumns;
  std::vector<C> left(kRows<C> * kDepth), right(panels * kColumns * kDepth);
  for (size_t p = 0; p < k; p += kDepth) {
    const size_t depth = std::min(kDepth, k - p);
    for (size_t j = 0; j < n; j += kColumns)
      pack(&right[j * depth], b, ptrdiff_t(p) * b.row + ptrdiff_t(j) * b.column, b.column, b.row,
           std::min(kColumns, n - j), depth, kColumns);
    for (size_t i = 0; i < m; i += kRows<C>) {
      const size_t rows = std::min(kRows<C>, m - i);
      pack(left.data(), a, ptrdiff_t(i) * a.row + ptrdiff_t(p) * a.column, a.row, a.column, rows, depth, kRows<C>);
      for (size_t j = 0; j < n; j += kColumns)
        add_tile(left.data(), &right[j * depth], depth, c + j * ldc + i, ldc, rows, std::min(kColumns, n - j));
    }
  }
}

template void multiply_add(size_t, size_t, size_t, const Operand&, const Operand&, float*, size_t);
template void multiply_add(size_t, size_t, size_t, const Operand&, const Operand&, double*, size_t);

}  // namespace simgpu
