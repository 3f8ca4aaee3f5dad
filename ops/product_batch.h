/// Not installed: how a matmul of tensors is made of products of matrices: which batch dimensions fold into the
/// matrices themselves, which count results, and which count terms of a sum. What computes the products is a device's
/// own.
#pragma once
#include <tandem/core/tensor.h>

#include <algorithm>
#include <utility>

namespace tandem::detail {

/// The last two dimensions of a tensor.
struct Matrices {
  int64_t rows, cols, row_stride, col_stride;
  explicit Matrices(const Tensor& t)
      : rows(t.shape()[t.dim() - 2]),
        cols(t.shape().back()),
        row_stride(t.strides()[t.dim() - 2]),
        col_stride(t.strides().back()) {}
  bool by_rows() const { return (col_stride == 1 || cols == 1) && (row_stride >= cols || rows == 1); }
  bool by_cols() const { return (row_stride == 1 || rows == 1) && (col_stride >= rows || cols == 1); }
};

/// A view with the last two dimensions exchanged.
inline Tensor transposed(const Tensor& t) {
  Dims shape = t.shape(), strides = t.strides();
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return t.alias(shape, strides, t.impl()->offset);
}

/// c = a b for tensors [..., rows, cols] as the slots of ops/matmul.h take them. Offsets count elements.
struct ProductBatch {
  /// How a matrix lies: see MatrixRef in ops/gemm.h.
  struct Lie {
    int64_t stride;
    bool transposed;
    explicit Lie(const Matrices& s) : transposed(!s.by_rows()) {
      stride = transposed ? (s.cols == 1 ? std::max<int64_t>(s.rows, 1) : s.col_stride)
                          : (s.rows == 1 ? std::max<int64_t>(s.cols, 1) : s.row_stride);
    }
  };
  /// Where each side's matrices start, or how far apart they do.
  struct Steps {
    int64_t a, b, c;
    Steps operator+(const Steps& o) const { return {a + o.a, b + o.b, c + o.c}; }
    Steps operator*(int64_t n) const { return {a * n, b * n, c * n}; }
    bool operator==(const Steps&) const = default;
  };
  /// A set of batch dimensions, inner ones first; those through which every side runs on are one.
  struct Set {
    int n = 0;
    int64_t size[kMaxDims];
    Steps step[kMaxDims];

    void add(int64_t count, const Steps& s) {
      if (n && step[n - 1] * size[n - 1] == s) {
        size[n - 1] *= count;
        return;
      }
      size[n] = count;
      step[n++] = s;
    }
    int64_t count() const {
      int64_t k = 1;
      for (int i = 0; i < n; ++i) k *= size[i];
      return k;
    }
    Steps at(int64_t index) const {
      Steps from{};
      for (int i = 0; i < n; index /= size[i++]) from = from + step[i] * (index % size[i]);
      return from;
    }
  };

  int64_t m, n, k;
  Lie a, b;
  int64_t c_stride;
  Set kept, summed;  // results, and what adds up to each

  ProductBatch(const Tensor& ct, const Tensor& at, const Tensor& bt)
      : m(Matrices(ct).rows),
        n(Matrices(ct).cols),
        k(Matrices(at).cols),
        a(Matrices(at)),
        b(Matrices(bt)),
        c_stride(std::max<int64_t>(n, 1)) {
    for (int i = ct.dim() - 2; i--;) {  // inner dimensions first: they fold into the matrices
      const int64_t an = at.shape()[i], bn = bt.shape()[i], cn = ct.shape()[i], size = an == 1 ? bn : an;
      const Steps s{an == 1 ? 0 : at.strides()[i], bn == 1 ? 0 : bt.strides()[i], cn == 1 ? 0 : ct.strides()[i]};
      if (size == 1) continue;
      if (cn == size && !a.transposed && s.b == 0 && s.a == m * a.stride && s.c == m * c_stride)
        m *= size;  // the matrices of a are one tall matrix
      else if (cn == 1 && a.transposed && !b.transposed && s.a == k * a.stride && s.b == k * b.stride)
        k *= size;  // the sum runs on over the next matrices
      else
        (cn == 1 ? summed : kept).add(size, s);
    }
  }
};

}  // namespace tandem::detail
