#include <tandem/cuda/column_sum.h>
#include <tandem/cuda/reduce_blocks.h>
#include <tandem/ops/layer_norm.h>

#include <cmath>

namespace tandem::cuda_impl {
namespace {

template <class Team, class T, class W>
__global__ void layer_norm_kernel(T* y, Compute<T>* mean, Compute<T>* invstd, const T* x, const W* w, const W* b,
                                  double eps, Rows rows) {
  using A = Compute<T>;
  for_each_row<Team>(rows, [&](const Team& team) {
    const T* row = x + team.first;
    T* out = y + team.first;
    const A n = A(team.n);
    A sum = 0, squares = 0;
    team.each([&](A v, int64_t) { sum += v; }, row);
    const A center = team.template reduce<Sum<A>>(sum) / n;
    team.each([&](A v, int64_t) { squares += (v - center) * (v - center); }, row);
    const A scale = A(1) / std::sqrt(team.template reduce<Sum<A>>(squares) / n + A(eps));
    if (team.lane == 0) {
      mean[team.row] = center;
      invstd[team.row] = scale;
    }
    if (w && b)
      team.write(
          out, false, [=](A v, A weight, A bias, int64_t) { return (v - center) * scale * weight + bias; }, row, w, b);
    else if (w)
      team.write(
          out, false, [=](A v, A weight, int64_t) { return (v - center) * scale * weight; }, row, w);
    else if (b)
      team.write(
          out, false, [=](A v, A bias, int64_t) { return (v - center) * scale + bias; }, row, b);
    else
      team.write(
          out, false, [=](A v, int64_t) { return (v - center) * scale; }, row);
  });
}

// The mean and the variance take their share back: of the upstream gradient, its average and its part along x - mean.
template <class Team, class T, class W>
__global__ void data_gradient_kernel(T* gx, bool add, const T* gy, const T* x, const Compute<T>* mean,
                                     const Compute<T>* invstd, const W* w, Rows rows) {
  using A = Compute<T>;
  for_each_row<Team>(rows, [&](const Team& team) {
    const T *row = x + team.first, *g = gy + team.first;
    const A center = mean[team.row], scale = invstd[team.row], n = A(team.n);
    A sum = 0, along = 0;
    auto add_up = [&](A upstream, A v) {
      sum += upstream;
      along += upstream * (v - center);
    };
    if (w)
      team.each([&](A up, A v, A weight, int64_t) { add_up(up * weight, v); }, g, row, w);
    else
      team.each([&](A up, A v, int64_t) { add_up(up, v); }, g, row);
    const A average = team.template reduce<Sum<A>>(sum) / n;
    const A slope = team.template reduce<Sum<A>>(along) * scale * scale / n;
    auto gradient = [=](A upstream, A v) { return ((upstream - average) - (v - center) * slope) * scale; };
    if (w)
      team.write(
          gx + team.first, add, [=](A up, A v, A weight, int64_t) { return gradient(up * weight, v); }, g, row, w);
    else
      team.write(
          gx + team.first, add, [=](A up, A v, int64_t) { return gradient(up, v); }, g, row);
  });
}

// Calls f(T{}, W{}) with the types of the values and of weight and bias, which are those of the values or f32.
template <class F>
void dispatch(const Tensor& x, const Tensor& weight, const Tensor& bias, F f) {
  const Tensor& one = weight ? weight : bias;
  dispatch_float(x.dtype(), [&](auto t) {
    if (one && one.dtype() != x.dtype())
      f(t, Compute<decltype(t)>{});
    else
      f(t, t);
  });
}
template <class W>
const W* pointer(const Tensor& t) {
  return t ? t.ptr<W>() : nullptr;
}

void layer_norm_forward_cuda(Tensor& y, Tensor& mean, Tensor& invstd, const Tensor& x, const Tensor& weight,
                             const Tensor& bias_in, double eps) {
  const int64_t m = x.size(0), n = x.size(1);
  if (m == 0) return;
  On on(x);
  Tensor bias = bias_in;  // of the weight's dtype
  if (weight && bias && weight.dtype() != bias.dtype())
    bias = copy_of(bias, {.dtype = weight.dtype(), .device = bias.device()});
  dispatch(x, weight, bias, [&](auto t, auto u) {
    using T = decltype(t);
    using W = decltype(u);
    using A = Compute<T>;
    const W *w = pointer<W>(weight), *b = pointer<W>(bias);
    const Rows rows{m, n, 1, rows_are_packed(n, y.ptr<T>(), x.ptr<T>(), w, b)};
    with_row_team(rows, [&](auto team, Grid grid) {
      launch(on, grid, layer_norm_kernel<typename decltype(team)::type, T, W>, y.ptr<T>(), mean.ptr<A>(),
             invstd.ptr<A>(), x.ptr<T>(), w, b, eps, rows);
    });
  });
}

void layer_norm_backward_data_cuda(Out gx, const Tensor& gy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                   const Tensor& weight) {
  const int64_t m = x.size(0), n = x.size(1);
  if (x.numel() == 0) return;
  On on(x);
  dispatch(x, weight, Tensor(), [&](auto t, auto u) {
    using T = decltype(t);
    using W = decltype(u);
    using A = Compute<T>;
    const W* w = pointer<W>(weight);
    const Rows rows{m, n, 1, rows_are_packed(n, gx.t.ptr<T>(), gy.ptr<T>(), x.ptr<T>(), w)};
    with_row_team(rows, [&](auto team, Grid grid) {
      launch(on, grid, data_gradient_kernel<typename decltype(team)::type, T, W>, gx.t.ptr<T>(), gx.beta != 0,
             gy.ptr<T>(), x.ptr<T>(), mean.ptr<A>(), invstd.ptr<A>(), w, rows);
    });
  });
}

// What element i of column j of x adds to that column's weight gradient.
template <class T>
struct WeightShare {
  using A = Compute<T>;
  const T* gy;
  const A *mean, *invstd;
  int64_t n;
  __device__ A operator()(A v, int64_t i, int64_t j) const { return A(gy[i * n + j]) * (v - mean[i]) * invstd[i]; }
};

void layer_norm_backward_weight_cuda(Out g_weight, const Tensor& gy, const Tensor& x, const Tensor& mean,
                                     const Tensor& invstd) {
  const int64_t m = x.size(0), n = x.size(1);
  const Tensor blocks = x.alias({1, m, n}, {m * n, n, 1}, x.impl()->offset);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    const WeightShare<T> share{gy.ptr<T>(), mean.ptr<A>(), invstd.ptr<A>(), n};
    dispatch_sum<T>(g_weight.t.dtype(), [&](auto sum) {
      using G = decltype(sum);
      reduce_blocks<Sum<A>, T>(blocks, share, StoreSum<G>{g_weight.t.ptr<G>(), g_weight.beta != 0});
    });
  });
}

void layer_norm_backward_bias_cuda(Out g_bias, const Tensor& gy) { column_sum(g_bias, gy, gy.size(0), gy.size(1)); }

TANDEM_KERNEL(layer_norm_forward, cuda, layer_norm_forward_cuda);
TANDEM_KERNEL(layer_norm_backward_data, cuda, layer_norm_backward_data_cuda);
TANDEM_KERNEL(layer_norm_backward_weight, cuda, layer_norm_backward_weight_cuda);
TANDEM_KERNEL(layer_norm_backward_bias, cuda, layer_norm_backward_bias_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
