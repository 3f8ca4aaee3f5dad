#include <tandem/cuda/reduce_blocks.h>
#include <tandem/ops/reduce.h>

namespace tandem::cuda_impl {
namespace {

// What values are compared in: what can be shuffled.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 1, int32_t, Compute<T>>;

template <class T>
struct Store {
  T* y;
  template <class V>
  __device__ void operator()(int64_t j, V v) const {
    y[j] = T(v);
  }
};

template <class T>
struct StoreQuotient {
  T* y;
  Compute<T> divisor;
  __device__ void operator()(int64_t j, Compute<T> sum) const { y[j] = T(sum / divisor); }
};

void sum_forward_cuda(Tensor& y, const Tensor& x) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using Result = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    reduce_blocks<Sum<SumOf<T>>, T>(x, Value<SumOf<T>>{}, Store<Result>{y.ptr<Result>()});
  });
}

void mean_forward_cuda(Tensor& y, const Tensor& x) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    reduce_blocks<Sum<A>, T>(x, Value<A>{}, StoreQuotient<T>{y.ptr<T>(), A(x.size(1))});
  });
}

template <class A>
struct DivideBy {
  A divisor;
  __device__ A operator()(A v) const { return v / divisor; }
};

void mean_backward_data_cuda(Tensor& g, const Tensor& gy, int64_t count) {
  On on(g);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    pointwise(on, DivideBy<Compute<T>>{Compute<T>(count)}, false, gy.numel(), g.ptr<T>(), gy.ptr<T>());
  });
}

// -- extrema ----------------------------------------------------------------------------------------------------

template <template <class> class Op>
void extremum_forward_cuda(Tensor& y, const Tensor& x) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    reduce_blocks<Op<Wide<T>>, T>(x, Value<Wide<T>>{}, Store<T>{y.ptr<T>()});
  });
}

template <class T>
struct EqualsBest {
  const T* best;
  __device__ int64_t operator()(Compute<T> v, int64_t, int64_t j) const { return v == Compute<T>(best[j]); }
};
// Where the extremum is NaN nothing equals it: 0 / 0 makes the whole gradient NaN, as PyTorch's is.
template <class T>
struct StoreShare {
  Compute<T>* share;
  const T* gy;
  __device__ void operator()(int64_t j, int64_t equal) const { share[j] = Compute<T>(gy[j]) / Compute<T>(equal); }
};
template <class T>
struct GiveShare {
  const T* best;
  const Compute<T>* share;
  __device__ Compute<T> operator()(Compute<T> v, int64_t j) const {
    return share[j] * Compute<T>(v == Compute<T>(best[j]));
  }
};

// gx[e] = (gx[e] +) f(x[e], j), e being an element of result j.
template <class T, class F>
__global__ void over_elements(T* gx, const T* x, Blocks b, bool add, F f) {
  for (int64_t e = first_index(); e < b.outer * b.n * b.inner; e += index_step()) {
    const Compute<T> v = f(Compute<T>(x[e]), e / (b.n * b.inner) * b.inner + e % b.inner);
    gx[e] = T(add ? Compute<T>(gx[e]) + v : v);
  }
}
template <class T, class F>
void launch_over_elements(const Out& gx, const Tensor& x, F f) {
  if (x.numel() == 0) return;
  On on(x);
  launch(on, grid_for(x.numel()), over_elements<T, F>, gx.t.ptr<T>(), x.ptr<T>(), detail::block_sizes(x), gx.beta != 0,
         f);
}

void extremum_backward_data_cuda(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const Tensor shares = empty({y.numel()}, {.dtype = dtype_of<A>, .device = y.device()});
    reduce_blocks<Sum<int64_t>, T>(x, EqualsBest<T>{y.ptr<T>()}, StoreShare<T>{shares.ptr<A>(), gy.ptr<T>()});
    launch_over_elements<T>(gx, x, GiveShare<T>{y.ptr<T>(), shares.ptr<A>()});
  });
}

// -- where extrema are --------------------------------------------------------------------------------------------

template <class W>
struct Place {
  W value;
  int64_t index;
};

template <class W>
__device__ bool is_nan(W v) {
  return v != v;
}

// The first of the best, NaN being the best.
template <template <class> class Extremum, class W>
struct First {
  using Acc = Place<W>;
  __device__ static Acc identity() { return {Extremum<W>::identity(), std::numeric_limits<int64_t>::max()}; }
  __device__ static Acc combine(Acc a, Acc b) {
    const bool same = a.value == b.value || (is_nan(a.value) && is_nan(b.value));
    if (same) return b.index < a.index ? b : a;
    const W best = Extremum<W>::combine(a.value, b.value);
    return best == b.value || is_nan(b.value) ? b : a;
  }
};

template <class W>
struct ToPlace {
  template <class V>
  __device__ Place<W> operator()(V v, int64_t i, int64_t) const {
    return {W(v), i};
  }
};
template <class W>
struct StoreIndex {
  int64_t* y;
  __device__ void operator()(int64_t j, Place<W> p) const { y[j] = p.index; }
};

template <template <class> class Extremum>
void arg_extremum_forward_cuda(Tensor& y, const Tensor& x) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using W = Wide<T>;
    reduce_blocks<First<Extremum, W>, T>(x, ToPlace<W>{}, StoreIndex<W>{y.ptr<int64_t>()});
  });
}

// -- variance, in two passes ---------------------------------------------------------------------------------------

template <class A>
struct SquaredDeviation {
  const A* mean;
  __device__ A operator()(A v, int64_t, int64_t j) const { return (v - mean[j]) * (v - mean[j]); }
};

template <class T>
Tensor means_of(const Tensor& x) {
  using A = Compute<T>;
  Tensor means = empty({x.size(0) * x.size(2)}, {.dtype = dtype_of<A>, .device = x.device()});
  reduce_blocks<Sum<A>, T>(x, Value<A>{}, StoreQuotient<A>{means.ptr<A>(), A(x.size(1))});
  return means;
}

double variance_divisor(int64_t n, bool unbiased) { return double(std::max<int64_t>(0, unbiased ? n - 1 : n)); }

void var_forward_cuda(Tensor& y, const Tensor& x, bool unbiased) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const Tensor means = means_of<T>(x);
    reduce_blocks<Sum<A>, T>(x, SquaredDeviation<A>{means.ptr<A>()},
                             StoreQuotient<T>{y.ptr<T>(), A(variance_divisor(x.size(1), unbiased))});
  });
}

template <class T>
struct VarianceGradient {
  const T* gy;
  const Compute<T>* mean;
  Compute<T> twice;  // 2 / the divisor
  __device__ Compute<T> operator()(Compute<T> v, int64_t j) const { return twice * Compute<T>(gy[j]) * (v - mean[j]); }
};

void var_backward_data_cuda(Out gx, const Tensor& gy, const Tensor& x, bool unbiased) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const Tensor means = means_of<T>(x);
    const A twice = A(2 / variance_divisor(x.size(1), unbiased));
    launch_over_elements<T>(gx, x, VarianceGradient<T>{gy.ptr<T>(), means.ptr<A>(), twice});
  });
}

TANDEM_KERNEL(sum_forward, cuda, sum_forward_cuda);
TANDEM_KERNEL(mean_forward, cuda, mean_forward_cuda);
TANDEM_KERNEL(mean_backward_data, cuda, mean_backward_data_cuda);
TANDEM_KERNEL(amax_forward, cuda, extremum_forward_cuda<Max>);
TANDEM_KERNEL(amin_forward, cuda, extremum_forward_cuda<Min>);
TANDEM_KERNEL(extremum_backward_data, cuda, extremum_backward_data_cuda);
TANDEM_KERNEL(argmax_forward, cuda, arg_extremum_forward_cuda<Max>);
TANDEM_KERNEL(argmin_forward, cuda, arg_extremum_forward_cuda<Min>);
TANDEM_KERNEL(var_forward, cuda, var_forward_cuda);
TANDEM_KERNEL(var_backward_data, cuda, var_backward_data_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
