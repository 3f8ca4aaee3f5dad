#include <tandem/core/parallel_for.h>
#include <tandem/ops/gemm.h>

// Threads are ours: a product is cut into tiles that depend on its shape alone.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <algorithm>

namespace tandem::detail {
namespace {

constexpr int64_t kSmallProduct = 1 << 14;  // multiplications; oneDNN's call costs as much
constexpr int64_t kTileGrain = 1 << 18;     // multiplications that are worth a thread

template <class T>
void start_row(const Product<T>& p, T* c) {
  if (!p.add) {
    if (p.bias)
      std::copy_n(p.bias, p.n, c);
    else
      std::fill_n(c, p.n, T(0));
  } else if (p.bias) {
    for (int64_t j = 0; j < p.n; ++j) c[j] += p.bias[j];
  }
}

template <class T>
void by_loops(const Product<T>& p) {
  const int64_t a_row = p.a.transposed ? 1 : p.a.stride, a_col = p.a.transposed ? p.a.stride : 1;
  for (int64_t i = 0; i < p.m; ++i) {
    const T* a = p.a.data + i * a_row;
    T* c = p.c + i * p.c_stride;
    start_row(p, c);
    if (p.b.transposed) {
      for (int64_t j = 0; j < p.n; ++j) {
        const T* b = p.b.data + j * p.b.stride;
        T s = 0;
        for (int64_t l = 0; l < p.k; ++l) s += a[l * a_col] * b[l];
        c[j] += s;
      }
    } else {
      for (int64_t l = 0; l < p.k; ++l) {
        const T* b = p.b.data + l * p.b.stride;
        const T v = a[l * a_col];
#pragma omp simd
        for (int64_t j = 0; j < p.n; ++j) c[j] += v * b[j];
      }
    }
  }
}

template <class T, int Order>
using ConstMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>, 0, Eigen::OuterStride<>>;
template <class T>
using RowMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0, Eigen::OuterStride<>>;

// f(map) with the matrix in the order it lies in.
template <class T, class F>
void with_map(const MatrixRef<T>& r, int64_t rows, int64_t cols, F&& f) {
  if (r.transposed)
    f(ConstMap<T, Eigen::ColMajor>(r.data, rows, cols, Eigen::OuterStride<>(r.stride)));
  else
    f(ConstMap<T, Eigen::RowMajor>(r.data, rows, cols, Eigen::OuterStride<>(r.stride)));
}

template <class T>
void by_eigen(const Product<T>& p) {
  for (int64_t i = 0; i < p.m; ++i) start_row(p, p.c + i * p.c_stride);
  RowMap<T> c(p.c, p.m, p.n, Eigen::OuterStride<>(p.c_stride));
  with_map(p.a, p.m, p.k, [&](auto a) { with_map(p.b, p.k, p.n, [&](auto b) { c.noalias() += a * b; }); });
}

// Cuts the longer side of c into at most 16 tiles of at least 64.
template <class T>
void by_eigen_tiles(const Product<T>& p) {
  const bool by_rows = p.m >= p.n;
  const int64_t side = std::max(p.m, p.n);
  const int64_t tile = std::max<int64_t>(64, (side + 15) / 16), tiles = (side + tile - 1) / tile;
  const int64_t work = tile * std::min(p.m, p.n) * p.k;
  tandem::parallel_for(tiles, std::max<int64_t>(1, kTileGrain / std::max<int64_t>(work, 1)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t t = begin; t < end; ++t) {
                           const int64_t from = t * tile, size = std::min(tile, side - from);
                           Product<T> q = p;
                           if (by_rows) {
                             q.m = size;
                             q.a = p.a.rows_from(from);
                             q.c = p.c + from * p.c_stride;
                           } else {
                             q.n = size;
                             q.b = p.b.cols_from(from);
                             q.c = p.c + from;
                             if (p.bias) q.bias = p.bias + from;
                           }
                           by_eigen(q);
                         }
                       });
}

template <class T>
bool is_small(const Product<T>& p) {
  return p.m * p.n * p.k <= kSmallProduct;
}

}  // namespace

template <class T>
void gemm(const Product<T>& p) {
  if (is_small(p)) return by_loops(p);
#ifdef TANDEM_ONEDNN
  if constexpr (std::is_same_v<T, float>) return gemm_onednn(p);
#endif
  by_eigen_tiles(p);
}

template <class T>
void gemm_serial(const Product<T>& p) {
  is_small(p) ? by_loops(p) : by_eigen(p);
}

template void gemm(const Product<float>&);
template void gemm(const Product<double>&);
template void gemm_serial(const Product<float>&);
template void gemm_serial(const Product<double>&);

}  // namespace tandem::detail
