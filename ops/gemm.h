/// Not installed: matrix products on the CPU, the one door to Eigen's and oneDNN's. Small ones are plain loops, because
/// a library's call costs more than they do.
#pragma once
#include <tandem/core/device.h>

namespace tandem::detail {

/// A matrix as it enters a product: element (i, j) is data[i * stride + j], or data[j * stride + i] where transposed.
template <class T>
struct MatrixRef {
  const T* data;
  int64_t stride;
  bool transposed = false;
  MatrixRef rows_from(int64_t i) const { return {data + (transposed ? i : i * stride), stride, transposed}; }
  MatrixRef cols_from(int64_t j) const { return {data + (transposed ? j * stride : j), stride, transposed}; }
};

/// c[m,n] = a[m,k] b[k,n], plus bias[n] where there is one, plus what c held where `add` (else c is not read).
template <class T>
struct Product {
  int64_t m, n, k;
  MatrixRef<T> a, b;
  T* c;
  int64_t c_stride;
  const T* bias = nullptr;
  bool add = false;
  Device device = {};  // whose pool scratch comes from
};

/// T is float or double; c must overlap neither operand. With Eigen and by loops the bits do not depend on the number
/// of threads; in f32 oneDNN computes what is not small, where it is compiled in.
template <class T>
void gemm(const Product<T>& p);
/// The same without threads, for callers with a parallel loop of their own: always loops or Eigen.
template <class T>
void gemm_serial(const Product<T>& p);

/// gemm's way to oneDNN.
void gemm_onednn(const Product<float>& p);

}  // namespace tandem::detail
