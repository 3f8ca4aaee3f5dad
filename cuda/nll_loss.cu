#include <tandem/cuda/range_check.h>
#include <tandem/cuda/reduce_blocks.h>
#include <tandem/ops/nll_loss.h>

namespace tandem::cuda_impl {
namespace {

template <class A>
struct LossAndWeight {
  A loss, weight;
};
template <class A>
struct SumBoth {
  using Acc = LossAndWeight<A>;
  __device__ static Acc identity() { return {A(0), A(0)}; }
  __device__ static Acc combine(Acc a, Acc b) { return {a.loss + b.loss, a.weight + b.weight}; }
};

// What the row whose target is k adds to the loss and to what a mean is divided by.
template <class T, class W>
struct RowLoss {
  const T* x;  // [m,c]
  const W* w;  // [c] or null
  RangeCheck in_range;
  int64_t ignore_index;

  __device__ LossAndWeight<Compute<T>> operator()(int64_t k, int64_t row, int64_t) const {
    using A = Compute<T>;
    if (k == ignore_index || !in_range(k, row)) return {A(0), A(0)};
    const A weight = w ? A(w[k]) : A(1);
    return {-A(x[row * in_range.size + k]) * weight, weight};
  }
};

template <class T>
struct StoreBoth {
  T* loss;  // null where each row has its own
  Compute<T>* total;
  bool mean;
  __device__ void operator()(int64_t, LossAndWeight<Compute<T>> v) const {
    if (loss) *loss = T(mean ? v.loss / v.weight : v.loss);
    *total = v.weight;
  }
};

template <class T, class W>
__global__ void row_losses_kernel(T* loss, const int64_t* target, int64_t m, RowLoss<T, W> row_loss) {
  for (int64_t i = first_index(); i < m; i += index_step()) loss[i] = T(row_loss(target[i], i, 0).loss);
}

// Calls f(T{}, W{}) with the types of the values and of the weights, which are those of the values or f32.
template <class F>
void dispatch(const Tensor& x, const Tensor& weight, F f) {
  dispatch_float(x.dtype(), [&](auto t) {
    if (weight && weight.dtype() != x.dtype())
      f(t, Compute<decltype(t)>{});
    else
      f(t, t);
  });
}

void nll_loss_forward_cuda(Tensor& loss, Tensor& total, const Tensor& x, const Tensor& target, const Tensor& weight,
                           Reduction r, int64_t ignore_index) {
  const int64_t m = x.size(0);
  const Tensor column = target.alias({1, m, 1}, {m, 1, 1}, target.impl()->offset);
  dispatch(x, weight, [&](auto t, auto u) {
    using T = decltype(t);
    using W = decltype(u);
    using A = Compute<T>;
    const RowLoss<T, W> row_loss{x.ptr<T>(), weight ? weight.ptr<W>() : nullptr,
                                 RangeCheck(x.device(), RangeOf::classes, x.size(1)), ignore_index};
    const bool none = r == Reduction::none;
    reduce_blocks<SumBoth<A>, int64_t>(
        column, row_loss, StoreBoth<T>{none ? nullptr : loss.ptr<T>(), total.ptr<A>(), r == Reduction::mean});
    if (!none || m == 0) return;
    On on(x);
    launch(on, grid_for(m), row_losses_kernel<T, W>, loss.ptr<T>(), target.ptr<int64_t>(), m, row_loss);
  });
}

// The targets' elements alone: all others are 0 already.
template <class T, class W>
__global__ void gradient_kernel(T* gx, const T* gy, bool each, const Compute<T>* total, const int64_t* target,
                                const W* w, int64_t m, int64_t c, int64_t ignore_index) {
  using A = Compute<T>;
  for (int64_t i = first_index(); i < m; i += index_step()) {
    const int64_t k = target[i];
    if (k == ignore_index || uint64_t(k) >= uint64_t(c)) continue;
    T& g = gx[i * c + k];
    g = T(A(g) - A(gy[each ? i : 0]) * (w ? A(w[k]) : A(1)) / (total ? *total : A(1)));
  }
}

void nll_loss_backward_data_cuda(Out gx, const Tensor& gy, const Tensor& total, const Tensor& target,
                                 const Tensor& weight, Reduction r, int64_t ignore_index) {
  const int64_t m = gx.t.size(0), c = gx.t.size(1);
  if (gx.t.numel() == 0) return;
  On on(gx.t);
  if (gx.beta == 0) zero_bytes(gx.t.raw(), gx.t.device(), size_t(gx.t.numel()) * size_of(gx.t.dtype()));
  dispatch(gx.t, weight, [&](auto t, auto u) {
    using T = decltype(t);
    using W = decltype(u);
    launch(on, grid_for(m), gradient_kernel<T, W>, gx.t.ptr<T>(), gy.ptr<T>(), r == Reduction::none,
           r == Reduction::mean ? total.ptr<Compute<T>>() : nullptr, target.ptr<int64_t>(),
           weight ? weight.ptr<W>() : nullptr, m, c, ignore_index);
  });
}

TANDEM_KERNEL(nll_loss_forward, cuda, nll_loss_forward_cuda);
TANDEM_KERNEL(nll_loss_backward_data, cuda, nll_loss_backward_data_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
