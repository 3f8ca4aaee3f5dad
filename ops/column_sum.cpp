#include <tandem/core/parallel_for.h>
#include <tandem/ops/column_sum.h>

#include <algorithm>

namespace tandem::detail {
namespace {

constexpr int64_t kBlock = 64;       // columns that are summed together
constexpr int64_t kRun = 16;         // rows that are summed in T before they go into the double
constexpr int64_t kPartRows = 1024;  // rows of a part, at least
constexpr int64_t kMostParts = 16;
constexpr int64_t kGrain = 1 << 15;  // elements worth a thread

// acc[0..width) = sum over `rows` rows of x.
template <class T>
void sum_rows(const T* x, int64_t rows, int64_t stride, int64_t width, double* acc) {
  if (width < 8) {  // in a register each
    for (int64_t c = 0; c < width; ++c) {
      double s = 0;
      for (int64_t r = 0; r < rows; ++r) s += double(x[r * stride + c]);
      acc[c] = s;
    }
    return;
  }
  std::fill_n(acc, width, 0.0);
  if (width < kBlock) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < width; ++c) acc[c] += double(x[r * stride + c]);
    return;
  }
  for (int64_t r0 = 0; r0 < rows; r0 += kRun) {
    const int64_t r1 = std::min(rows, r0 + kRun);
    T s[kBlock] = {};
    for (int64_t r = r0; r < r1; ++r) {
      const T* p = x + r * stride;
#pragma omp simd
      for (int64_t c = 0; c < kBlock; ++c) s[c] += p[c];
    }
    for (int64_t c = 0; c < kBlock; ++c) acc[c] += double(s[c]);
  }
}

template <class T>
void put(T* out, const double* sums, int64_t n, bool add) {
  for (int64_t c = 0; c < n; ++c) out[c] = T(add ? double(out[c]) + sums[c] : sums[c]);
}

template <class T>
void sum(const Out& o, const T* x, int64_t rows, int64_t cols) {
  T* out = o.t.ptr<T>();
  const bool add = o.beta != 0;
  const int64_t blocks = (cols + kBlock - 1) / kBlock;
  const int64_t parts = std::clamp<int64_t>(rows / kPartRows, 1, kMostParts);
  const int64_t step = (rows + parts - 1) / parts;
  auto width = [=](int64_t block) { return std::min(kBlock, cols - block * kBlock); };
  if (parts == 1) {
    tandem::parallel_for(blocks, std::max<int64_t>(1, kGrain / (kBlock * std::max<int64_t>(rows, 1))),
                         [&](int64_t a, int64_t b) {
                           for (int64_t k = a; k < b; ++k) {
                             double acc[kBlock];
                             sum_rows(x + k * kBlock, rows, cols, width(k), acc);
                             put(out + k * kBlock, acc, width(k), add);
                           }
                         });
    return;
  }
  Tensor partial = empty({parts, cols}, {.dtype = Dtype::f64, .device = o.t.device()});
  double* p = partial.ptr<double>();
  tandem::parallel_for(parts * blocks, std::max<int64_t>(1, kGrain / (kBlock * step)), [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) {
      const int64_t part = i / blocks, k = i % blocks, from = part * step;
      sum_rows(x + from * cols + k * kBlock, std::max<int64_t>(0, std::min(step, rows - from)), cols, width(k),
               p + part * cols + k * kBlock);
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t c = 0; c < cols; ++c) p[c] += p[part * cols + c];
  put(out, p, cols, add);
}

}  // namespace

void column_sum(const Out& out, const Tensor& x, int64_t rows, int64_t cols) {
  dispatch_real("column_sum", x.dtype(), [&](auto t) {
    using T = decltype(t);
    sum(out, x.ptr<T>(), rows, cols);
  });
}

}  // namespace tandem::detail
