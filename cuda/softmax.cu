#include <tandem/cuda/softmax_row.h>
#include <tandem/ops/softmax.h>

namespace tandem::cuda_impl {
namespace {

template <class Team, bool kLog, class T>
__global__ void softmax_kernel(T* y, const T* x, Rows rows) {
  using A = Compute<T>;
  for_each_row<Team>(rows, [&](const Team& team) {
    const T* row = x + team.first;
    const Exponentials<A> e = sum_exponentials(team, row);
    const A factor = A(1) / e.sum, log_sum = std::log(e.sum);
    team.write(
        y + team.first, false,
        [=](A v, int64_t) { return kLog ? (v - e.top) - log_sum : std::exp(v - e.top) * factor; }, row);
  });
}

// Of softmax: y * (gy - sum of gy * y); of log_softmax: gy - e^y * sum of gy.
template <class Team, bool kLog, class T>
__global__ void softmax_gradient_kernel(T* gx, bool add, const T* gy, const T* y, Rows rows) {
  using A = Compute<T>;
  for_each_row<Team>(rows, [&](const Team& team) {
    const T *g = gy + team.first, *result = y + team.first;
    A sum = 0;
    team.each([&](A up, A v, int64_t) { sum += kLog ? up : up * v; }, g, result);
    sum = team.template reduce<Sum<A>>(sum);
    team.write(
        gx + team.first, add, [=](A up, A v, int64_t) { return kLog ? up - std::exp(v) * sum : v * (up - sum); }, g,
        result);
  });
}

template <class... T>
Rows rows_of(const Tensor& x, const T*... operands) {
  return {x.size(0), x.size(1), x.size(2), x.size(2) == 1 && rows_are_packed(x.size(1), operands...)};
}

template <bool kLog>
void forward(Tensor& y, const Tensor& x) {
  if (x.numel() == 0) return;
  On on(x);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    const Rows rows = rows_of(x, y.ptr<T>(), x.ptr<T>());
    with_team(rows, [&](auto team, Grid grid) {
      launch(on, grid, softmax_kernel<typename decltype(team)::type, kLog, T>, y.ptr<T>(), x.ptr<T>(), rows);
    });
  });
}

template <bool kLog>
void backward(Out gx, const Tensor& gy, const Tensor& y) {
  if (y.numel() == 0) return;
  On on(y);
  dispatch_float(y.dtype(), [&](auto t) {
    using T = decltype(t);
    const Rows rows = rows_of(y, gx.t.ptr<T>(), gy.ptr<T>(), y.ptr<T>());
    with_team(rows, [&](auto team, Grid grid) {
      launch(on, grid, softmax_gradient_kernel<typename decltype(team)::type, kLog, T>, gx.t.ptr<T>(), gx.beta != 0,
             gy.ptr<T>(), y.ptr<T>(), rows);
    });
  });
}

TANDEM_KERNEL(softmax_forward, cuda, forward<false>);
TANDEM_KERNEL(log_softmax_forward, cuda, forward<true>);
TANDEM_KERNEL(softmax_backward_data, cuda, backward<false>);
TANDEM_KERNEL(log_softmax_backward_data, cuda, backward<true>);

}  // namespace
}  // namespace tandem::cuda_impl
