#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/reduce_blocks.h>
#include <tandem/ops/widen.h>

namespace tandem {
namespace {

constexpr OpId kSum{"sum"}, kMean{"mean"}, kAmax{"amax"}, kAmin{"amin"}, kVar{"var"}, kArgmax{"argmax"},
    kArgmin{"argmin"};

using detail::DimSet;

Tensor empty_result(const Tensor& x, DimSet reduced, bool keepdim, Dtype dtype) {
  return empty(reduced.reduced_shape(x.shape(), keepdim), {.dtype = dtype, .device = x.device()});
}

// A result's gradient as it reaches each element: repeated along the reduced dimensions, with stride 0.
Tensor repeated(const Tensor& gy, const Dims& shape, DimSet reduced) {
  Dims strides = shape;
  const bool keepdim = gy.dim() == shape.size();
  for (int d = 0, k = 0; d < shape.size(); ++d) {
    strides[d] = reduced.has(d) ? 0 : gy.strides()[k];
    if (keepdim || !reduced.has(d)) ++k;
  }
  return gy.alias(shape, strides, gy.impl()->offset);
}

void check_floating(const char* op, const Tensor& x) {
  check<DtypeError>(is_floating(x.dtype()), "[", op, "] takes floating tensors, got ", x.dtype());
}
void check_not_empty(const char* op, const Tensor& x, DimSet reduced) {
  for (int d = 0; d < x.dim(); ++d)
    check<ShapeError>(!reduced.has(d) || x.shape()[d] > 0, "[", op, "] there is nothing to choose from in dimension ",
                      d, " of ", x.shape());
}

Tensor extremum(const char* op, const KernelSlot<void(Tensor&, const Tensor&)>& forward, const Tensor& x,
                const Dims& dim, bool keepdim) {
  const DimSet reduced(op, dim, x.dim());
  check_not_empty(op, x, reduced);
  Tensor y = empty_result(x, reduced, keepdim, x.dtype());
  forward(x.device(), y, detail::blocks_of(x, reduced));
  Tensor values = y.detach();
  return record(op, std::move(y), {x}, [reduced, x = Saved(op, x), y = Saved(op, values)](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_layout(gy, Layout::row_major);
    Out out = t[0].out();
    Tensor like_out = as_layout(x(), out.t.layout());
    detail::in_blocks(std::move(out), reduced, [&](Out gx) {
      extremum_backward_data(g.device(), std::move(gx), g, detail::blocks_of(like_out, reduced), y());
    });
  });
}

Tensor arg_extremum(const char* op, const KernelSlot<void(Tensor&, const Tensor&)>& forward, const Tensor& x,
                    std::optional<int> dim, bool keepdim) {
  const DimSet reduced(op, dim ? Dims{*dim} : Dims{}, x.dim());
  check_not_empty(op, x, reduced);
  Tensor y = empty_result(x, reduced, keepdim, Dtype::i64);
  forward(x.device(), y, detail::blocks_of(x, reduced));
  return y;
}

}  // namespace

Tensor sum(const Tensor& x_in, const Dims& dim, bool keepdim) {
  auto [x] = enter(kSum, x_in);
  const DimSet reduced("sum", dim, x.dim());
  Tensor y = empty_result(x, reduced, keepdim, is_floating(x.dtype()) ? x.dtype() : Dtype::i64);
  sum_forward(x.device(), y, detail::blocks_of(x, reduced));
  return record("sum", std::move(y), {x}, [reduced](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(repeated(gy, t[0].shape(), reduced));
  });
}

Tensor mean(const Tensor& x_in, const Dims& dim, bool keepdim) {
  auto [x] = enter(kMean, x_in);
  check_floating("mean", x);
  const DimSet reduced("mean", dim, x.dim());
  Tensor y = empty_result(x, reduced, keepdim, x.dtype());
  mean_forward(x.device(), y, detail::blocks_of(x, reduced));
  return record("mean", std::move(y), {x}, [reduced](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor all = as_layout(gy, Layout::row_major), each = empty_like(all);
    mean_backward_data(gy.device(), each, all, reduced.count(t[0].shape()));
    t[0].give(repeated(each, t[0].shape(), reduced));
  });
}

Tensor amax(const Tensor& x_in, const Dims& dim, bool keepdim) {
  auto [x] = enter(kAmax, x_in);
  return extremum("amax", amax_forward, x, dim, keepdim);
}
Tensor amin(const Tensor& x_in, const Dims& dim, bool keepdim) {
  auto [x] = enter(kAmin, x_in);
  return extremum("amin", amin_forward, x, dim, keepdim);
}

Tensor var(const Tensor& x_in, const Dims& dim, VarOptions o) {
  auto [x] = enter(kVar, x_in);
  check_floating("var", x);
  const DimSet reduced("var", dim, x.dim());
  Tensor y = empty_result(x, reduced, o.keepdim, x.dtype());
  var_forward(x.device(), y, detail::blocks_of(x, reduced), o.unbiased);
  return record("var", std::move(y), {x}, [reduced, x = Saved("var", x), unbiased = o.unbiased](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_layout(gy, Layout::row_major);
    Out out = t[0].out();
    Tensor like_out = as_layout(x(), out.t.layout());
    detail::in_blocks(std::move(out), reduced, [&](Out gx) {
      var_backward_data(g.device(), std::move(gx), g, detail::blocks_of(like_out, reduced), unbiased);
    });
  });
}

Tensor argmax(const Tensor& x_in, std::optional<int> dim, bool keepdim) {
  auto [x] = enter(kArgmax, x_in);
  return arg_extremum("argmax", argmax_forward, x, dim, keepdim);
}
Tensor argmin(const Tensor& x_in, std::optional<int> dim, bool keepdim) {
  auto [x] = enter(kArgmin, x_in);
  return arg_extremum("argmin", argmin_forward, x, dim, keepdim);
}

Tensor sum(const Tensor& x) { return sum(x, Dims{}); }
Tensor mean(const Tensor& x) { return mean(x, Dims{}); }
Tensor amax(const Tensor& x) { return amax(x, Dims{}); }
Tensor amin(const Tensor& x) { return amin(x, Dims{}); }
Tensor var(const Tensor& x) { return var(x, Dims{}); }
Tensor Tensor::sum() const { return tandem::sum(*this); }
Tensor Tensor::mean() const { return tandem::mean(*this); }

namespace {

using detail::Blocks, detail::block_sizes, detail::reduce_blocks, detail::over_elements;

// What a kernel computes with: half precision is widened as it is read.
template <class T>
constexpr auto wide(T v) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
    return float(v);
  else
    return v;
}
template <class T>
using Wide = decltype(wide(T{}));
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<Wide<T>>, double, int64_t>;

void sum_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using Result = std::conditional_t<std::is_floating_point_v<Wide<T>>, T, int64_t>;
    const T* p = x.ptr<T>();
    auto* q = y.ptr<Result>();
    reduce_blocks<detail::Sum<SumOf<T>>>(
        x, [p](int64_t e, int64_t) { return SumOf<T>(wide(p[e])); },
        [q](int64_t j, SumOf<T> sum) { q[j] = Result(sum); });
  });
}

void mean_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_real("mean", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* p = x.ptr<T>();
    T* q = y.ptr<T>();
    const auto n = double(x.shape()[1]);
    reduce_blocks<detail::Sum<double>>(
        x, [p](int64_t e, int64_t) { return double(p[e]); }, [q, n](int64_t j, double sum) { q[j] = T(sum / n); });
  });
}

void mean_backward_data_cpu(Tensor& g, const Tensor& gy, int64_t count) {
  dispatch_real("mean", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const T *p = gy.ptr<T>(), n = T(count);
    T* q = g.ptr<T>();
    parallel_for(gy.numel(), detail::kReduceGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
      for (int64_t i = a; i < b; ++i) q[i] = p[i] / n;
    });
  });
}

template <template <class> class Op>
void extremum_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* p = x.ptr<T>();
    T* q = y.ptr<T>();
    reduce_blocks<Op<Wide<T>>>(
        x, [p](int64_t e, int64_t) { return wide(p[e]); }, [q](int64_t j, Wide<T> v) { q[j] = T(v); });
  });
}

void extremum_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y) {
  dispatch_real("amax", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T *p = x.ptr<T>(), *best = y.ptr<T>(), *g = gy.ptr<T>();
    T* q = gx.t.ptr<T>();
    Tensor shares = empty({y.numel()}, {.dtype = y.dtype(), .device = y.device()});
    T* share = shares.ptr<T>();
    reduce_blocks<detail::Sum<int64_t>>(
        x, [=](int64_t e, int64_t j) { return int64_t(p[e] == best[j]); },
        [=](int64_t j, int64_t equal) { share[j] = g[j] / T(equal); });
    const bool add = gx.beta != 0;
    // Where the extremum is NaN nothing equals it: 0 / 0 makes the whole gradient NaN, as PyTorch's is.
    over_elements(block_sizes(x), [=](int64_t e, int64_t j) {
      const T v = share[j] * T(p[e] == best[j]);
      q[e] = add ? q[e] + v : v;
    });
  });
}

// The first of n neighbours that is `best`, or NaN: a block that has it is found first, by vectors.
template <class T, class W>
int64_t first_match(const T* x, int64_t n, W best) {
  constexpr int64_t kBlock = 256;
  for (int64_t start = 0;; start += kBlock) {
    const int64_t stop = std::min(n, start + kBlock);
    int any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = start; i < stop; ++i) {
      const W v = wide(x[i]);
      any |= (v == best) | (v != v);
    }
    if (!any && stop < n) continue;
    for (int64_t i = start; i < stop; ++i)
      if (const W v = wide(x[i]); v == best || v != v) return i;
  }
}

// The first index at which x equals its extremum, or is NaN: then the extremum is NaN too.
template <template <class> class Op>
void arg_extremum_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using W = Wide<T>;
    const Blocks b = block_sizes(x);
    const T* p = x.ptr<T>();
    auto* index = y.ptr<int64_t>();
    Tensor extrema = empty({y.numel()}, {.dtype = Dtype::f64, .device = y.device()});  // as many bytes as any W takes
    auto* best = static_cast<W*>(extrema.raw());
    reduce_blocks<Op<W>>(
        x, [p](int64_t e, int64_t) { return wide(p[e]); }, [best](int64_t j, W v) { best[j] = v; });
    const int64_t block = std::max<int64_t>(1, b.n * b.inner);
    parallel_for(b.outer, std::max<int64_t>(1, detail::kReduceGrain / block), [=](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) {
        if (b.inner == 1) {
          index[o] = first_match(p + o * b.n, b.n, best[o]);
          continue;
        }
        const W* goal = best + o * b.inner;
        int64_t* to = index + o * b.inner;
        for (int64_t i = b.n; i--;) {  // backwards, so that the first one stays
          const T* from = p + (o * b.n + i) * b.inner;
#pragma omp simd
          for (int64_t c = 0; c < b.inner; ++c) {
            const W v = wide(from[c]);
            const int64_t was = to[c];
            to[c] = (v == goal[c]) | (v != v) ? i : was;
          }
        }
      }
    });
  });
}

// The means of blocks, in f64.
template <class T>
Tensor means_of(const Tensor& x) {
  const Blocks b = block_sizes(x);
  Tensor means = empty({b.outer * b.inner}, {.dtype = Dtype::f64, .device = x.device()});
  const T* p = x.ptr<T>();
  auto* m = means.ptr<double>();
  reduce_blocks<detail::Sum<double>>(
      x, [p](int64_t e, int64_t) { return double(p[e]); }, [m, b](int64_t j, double sum) { m[j] = sum / double(b.n); });
  return means;
}

double variance_divisor(int64_t n, bool unbiased) { return double(std::max<int64_t>(0, unbiased ? n - 1 : n)); }

void var_forward_cpu(Tensor& y, const Tensor& x, bool unbiased) {
  dispatch_real("var", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const Blocks b = block_sizes(x);
    const Tensor means = means_of<T>(x);
    const auto* m = means.ptr<double>();
    const T* p = x.ptr<T>();
    T* q = y.ptr<T>();
    const double divisor = variance_divisor(b.n, unbiased);
    reduce_blocks<detail::Sum<double>>(
        x,
        [=](int64_t e, int64_t j) {
          const double d = double(p[e]) - m[j];
          return d * d;
        },
        [=](int64_t j, double sum) { q[j] = T(sum / divisor); });
  });
}

void var_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& x, bool unbiased) {
  dispatch_real("var", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const Blocks b = block_sizes(x);
    const Tensor means = means_of<T>(x);
    const auto* m = means.ptr<double>();
    const T *p = x.ptr<T>(), *g = gy.ptr<T>();
    T* q = gx.t.ptr<T>();
    const double twice = 2 / variance_divisor(b.n, unbiased);
    const bool add = gx.beta != 0;
    over_elements(b, [=](int64_t e, int64_t j) {
      const T v = T(twice * double(g[j]) * (double(p[e]) - m[j]));
      q[e] = add ? q[e] + v : v;
    });
  });
}

TANDEM_KERNEL(sum_forward, cpu, sum_forward_cpu);
TANDEM_CPU_KERNEL(mean_forward, mean_forward_cpu);
TANDEM_CPU_KERNEL(mean_backward_data, mean_backward_data_cpu);
TANDEM_KERNEL(amax_forward, cpu, extremum_forward_cpu<detail::Max>);
TANDEM_KERNEL(amin_forward, cpu, extremum_forward_cpu<detail::Min>);
TANDEM_CPU_KERNEL(extremum_backward_data, extremum_backward_data_cpu);
TANDEM_KERNEL(argmax_forward, cpu, arg_extremum_forward_cpu<detail::Max>);
TANDEM_KERNEL(argmin_forward, cpu, arg_extremum_forward_cpu<detail::Min>);
TANDEM_CPU_KERNEL(var_forward, var_forward_cpu);
TANDEM_CPU_KERNEL(var_backward_data, var_backward_data_cpu);

}  // namespace
}  // namespace tandem
