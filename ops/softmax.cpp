#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/fold.h>
#include <tandem/ops/softmax.h>
#include <tandem/ops/vector_exp.h>
#include <tandem/ops/widen.h>

#include <cmath>

namespace tandem {
namespace {

constexpr OpId kSoftmax{"softmax"}, kLogSoftmax{"log_softmax"};

// A dense tensor as [outer, n, inner], n along `dim` in either layout.
Tensor blocks_along(const Tensor& x, int dim) {
  const int64_t n = x.dim() ? x.shape()[dim] : 1;
  if (x.numel() == 0) return x.alias({0, n, 1}, {n, 1, 1}, x.impl()->offset);
  const int64_t inner = n > 1 ? x.strides()[dim] : 1, outer = x.numel() / (n * inner);
  return x.alias({outer, n, inner}, {n * inner, inner, 1}, x.impl()->offset);
}

using Forward = KernelSlot<void(Tensor&, const Tensor&)>;
using Backward = KernelSlot<void(Out, const Tensor&, const Tensor&)>;

Tensor normalized(const char* op, const Forward& forward, const Backward& backward, const Tensor& x, int dim) {
  check<DtypeError>(is_floating(x.dtype()), "[", op, "] takes floating tensors, got ", x.dtype());
  dim = wrap_dim(op, dim, x.dim());
  Tensor dense = as_dense(x), y = empty_like(dense), blocks = blocks_along(y, dim);
  forward(x.device(), blocks, blocks_along(dense, dim));
  return record(op, y, {x}, [&backward, dim, y = Saved(op, y)](Tensor& gy, Targets t) {
    if (!t[0]) return;
    const Layout l = y().layout();
    Tensor g = as_layout(gy, l);
    gy = {};  // g is the only handle now, and may be written over
    in_layout(t[0].out_over(g), l, [&](Out gx) {
      backward(g.device(), Out{blocks_along(gx.t, dim), gx.beta}, blocks_along(g, dim), blocks_along(y(), dim));
    });
  });
}

}  // namespace

Tensor softmax(const Tensor& x_in, int dim) {
  auto [x] = enter(kSoftmax, x_in);
  return normalized("softmax", softmax_forward, softmax_backward_data, x, dim);
}

Tensor log_softmax(const Tensor& x_in, int dim) {
  auto [x] = enter(kLogSoftmax, x_in);
  return normalized("log_softmax", log_softmax_forward, log_softmax_backward_data, x, dim);
}

namespace {

using detail::Blocks, detail::fold_block, detail::kColumns, detail::Max, detail::Sum;

// f(first, columns) for every group of columns that is normalised together, `first` being the offset of its elements.
template <class F>
void over_groups(const Blocks& b, F f) {
  const int64_t groups = b.groups(), work = std::max<int64_t>(1, b.n * std::min<int64_t>(b.inner, kColumns));
  parallel_for(b.outer * groups, std::max<int64_t>(1, (1 << 13) / work), [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) f(u / groups * b.n * b.inner + u % groups * kColumns, b.columns(u % groups));
  });
}

// y[e] = f(e, c) (+ y[e]) for the elements of a group.
template <class T, class F>
void each(const Blocks& b, int columns, T* y, bool add, F f) {
  auto run = [&](int64_t first, int64_t count, auto column) {
    if (add) {
#pragma omp simd
      for (int64_t e = 0; e < count; ++e) y[first + e] += f(first + e, column(e));
    } else {
#pragma omp simd
      for (int64_t e = 0; e < count; ++e) y[first + e] = f(first + e, column(e));
    }
  };
  if (b.inner == 1) return run(0, b.n, [](int64_t) { return int64_t(0); });
  for (int64_t i = 0; i < b.n; ++i) run(i * b.inner, columns, [](int64_t e) { return e; });
}

Blocks sizes_of(const Tensor& x) { return {x.shape()[0], x.shape()[1], x.shape()[2]}; }

// Leaves e^(x - top) in y; finish(x, y, columns, top, sum) makes the result of it, sum being that of the exponentials.
template <class T, class F>
void exponentials(Tensor& y_out, const Tensor& x_in, F finish) {
  const Blocks b = sizes_of(x_in);
  over_groups(b, [&, all_x = x_in.ptr<T>(), all_y = y_out.ptr<T>()](int64_t first, int columns) {
    const T* x = all_x + first;
    T* y = all_y + first;
    T top[kColumns];
    double sum[kColumns];
    fold_block<Max<T>>(
        b, b.n, columns, [x](int64_t e, int) { return x[e]; }, top);
    each(b, columns, y, false, [x, &top](int64_t e, int64_t c) { return detail::vector_exp(x[e] - top[c]); });
    fold_block<Sum<double>>(
        b, b.n, columns, [y](int64_t e, int) { return double(y[e]); }, sum);
    finish(b, x, y, columns, top, sum);
  });
}

void softmax_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_real("softmax", x.dtype(), [&](auto t) {
    using T = decltype(t);
    exponentials<T>(y, x, [](const Blocks& b, const T*, T* q, int columns, const T*, const double* sum) {
      T share[kColumns];
      for (int c = 0; c < columns; ++c) share[c] = T(1 / sum[c]);
      each(b, columns, q, false, [q, &share](int64_t e, int64_t c) { return q[e] * share[c]; });
    });
  });
}

void log_softmax_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_real("log_softmax", x.dtype(), [&](auto t) {
    using T = decltype(t);
    exponentials<T>(y, x, [](const Blocks& b, const T* p, T* q, int columns, const T* top, const double* sum) {
      T log_sum[kColumns];
      for (int c = 0; c < columns; ++c) log_sum[c] = T(std::log(sum[c]));
      each(b, columns, q, false, [p, top, &log_sum](int64_t e, int64_t c) { return (p[e] - top[c]) - log_sum[c]; });
    });
  });
}

void softmax_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& y) {
  dispatch_real("softmax", y.dtype(), [&](auto t) {
    using T = decltype(t);
    const Blocks b = sizes_of(y);
    over_groups(b, [&, add = gx.beta != 0](int64_t first, int columns) {
      const T *g = gy.ptr<T>() + first, *p = y.ptr<T>() + first;
      double sum[kColumns];
      T dot[kColumns];
      fold_block<Sum<double>>(
          b, b.n, columns, [g, p](int64_t e, int) { return double(g[e]) * double(p[e]); }, sum);
      for (int c = 0; c < columns; ++c) dot[c] = T(sum[c]);
      each(b, columns, gx.t.ptr<T>() + first, add,
           [g, p, &dot](int64_t e, int64_t c) { return p[e] * (g[e] - dot[c]); });
    });
  });
}

void log_softmax_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& y) {
  dispatch_real("log_softmax", y.dtype(), [&](auto t) {
    using T = decltype(t);
    const Blocks b = sizes_of(y);
    over_groups(b, [&, add = gx.beta != 0](int64_t first, int columns) {
      const T *g = gy.ptr<T>() + first, *p = y.ptr<T>() + first;
      double sum[kColumns];
      T total[kColumns];
      fold_block<Sum<double>>(
          b, b.n, columns, [g](int64_t e, int) { return double(g[e]); }, sum);
      for (int c = 0; c < columns; ++c) total[c] = T(sum[c]);
      each(b, columns, gx.t.ptr<T>() + first, add,
           [g, p, &total](int64_t e, int64_t c) { return g[e] - detail::vector_exp(p[e]) * total[c]; });
    });
  });
}

TANDEM_CPU_KERNEL(softmax_forward, softmax_forward_cpu);
TANDEM_CPU_KERNEL(log_softmax_forward, log_softmax_forward_cpu);
TANDEM_CPU_KERNEL(softmax_backward_data, softmax_backward_data_cpu);
TANDEM_CPU_KERNEL(log_softmax_backward_data, log_softmax_backward_data_cpu);

}  // namespace
}  // namespace tandem
