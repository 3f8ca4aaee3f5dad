#include <tandem/core/parallel_for.h>
#include <tandem/ops/gemm.h>

// Threads are ours: a product is cut into tiles that depend on its shape alone.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <algorithm>
#include <type_traits>

namespace tandem::detail {
namespace {

constexpr int64_t kSmallProduct = 1 << 14;  // multiplications; oneDNN's call costs as much
constexpr int64_t kTileGrain = 1 << 18;     // multiplications that are worth a thread

// What element j of a row c starts from.
template <class T>
T start(const Product<T>& p, const T* c, int64_t j) {
  const T bias = p.bias ? p.bias[j] : T(0);
  return p.add ? c[j] + bias : bias;
}
template <class T>
void start_row(const Product<T>& p, T* c) {
  for (int64_t j = 0; j < p.n; ++j) c[j] = start(p, c, j);
}

// f(n), with a constant where n is short, so that the loop over it is unrolled: tiny layers are mostly loop overhead.
template <class F>
void with_short(int64_t n, F&& f) {
  switch (n) {
    case 1: return f(std::integral_constant<int64_t, 1>());
    case 2: return f(std::integral_constant<int64_t, 2>());
    case 3: return f(std::integral_constant<int64_t, 3>());
    case 4: return f(std::integral_constant<int64_t, 4>());
    case 5: return f(std::integral_constant<int64_t, 5>());
    case 6: return f(std::integral_constant<int64_t, 6>());
    case 7: return f(std::integral_constant<int64_t, 7>());
    case 8: return f(std::integral_constant<int64_t, 8>());
    default: return f(n);
  }
}

// Element (i, l) of a stands at a[i * row + l * col].
template <class T>
struct LeftSteps {
  int64_t row, col;
  explicit LeftSteps(const MatrixRef<T>& a) : row(a.transposed ? 1 : a.stride), col(a.transposed ? a.stride : 1) {}
};

// b by columns: every element of c is a dot product along k.
template <class T>
void by_dots(const Product<T>& p) {
  const LeftSteps<T> step(p.a);
  with_short(p.k, [&](auto k) {
    auto column_of_c = [&](int64_t j, const T* b) {
      const T bias = p.bias ? p.bias[j] : T(0);
      for (int64_t i = 0; i < p.m; ++i) {
        const T* a = p.a.data + i * step.row;
        T s = bias;
        for (int64_t l = 0; l < k; ++l) s += a[l * step.col] * b[l];
        T& c = p.c[i * p.c_stride + j];
        c = p.add ? c + s : s;
      }
    };
    for (int64_t j = 0; j < p.n; ++j) {
      const T* b = p.b.data + j * p.b.stride;
      if constexpr (std::is_same_v<decltype(k), int64_t>) {
        column_of_c(j, b);
      } else {
        T column[k];  // in registers, which stores to c can't change
        for (int64_t l = 0; l < k; ++l) column[l] = b[l];
        column_of_c(j, column);
      }
    }
  });
}

// b by rows: every row of c is a sum of b's rows.
template <class T>
void by_rows(const Product<T>& p) {
  const LeftSteps<T> step(p.a);
  with_short(p.n, [&](auto n) {
    for (int64_t i = 0; i < p.m; ++i) {
      const T* a = p.a.data + i * step.row;
      T* c = p.c + i * p.c_stride;
      if constexpr (std::is_same_v<decltype(n), int64_t>) {
        start_row(p, c);
        for (int64_t l = 0; l < p.k; ++l) {
          const T* b = p.b.data + l * p.b.stride;
          const T v = a[l * step.col];
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) c[j] += v * b[j];
        }
      } else {
        T sums[n] = {};
        for (int64_t l = 0; l < p.k; ++l) {
          const T* b = p.b.data + l * p.b.stride;
          const T v = a[l * step.col];
          for (int64_t j = 0; j < n; ++j) sums[j] += v * b[j];
        }
        for (int64_t j = 0; j < n; ++j) c[j] = start(p, c, j) + sums[j];
      }
    }
  });
}

template <class T>
void by_loops(const Product<T>& p) {
  p.b.transposed ? by_dots(p) : by_rows(p);
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
