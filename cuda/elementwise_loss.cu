#include <tandem/cuda/broadcast.h>
#include <tandem/cuda/fold_all.h>
#include <tandem/cuda/math.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/elementwise_loss_formulas.h>

namespace tandem::cuda_impl {
namespace {

using namespace detail;

// What each element's loss is divided by in the result.
int64_t divisor_of(int64_t elements, Reduction r) { return r == Reduction::mean ? elements : 1; }

template <class C>
struct Divided {
  C by;
  __device__ C operator()(C v) const { return v / by; }
};

// p: what the loss is made with.
template <template <class, class> class Loss, class... P>
void forward(Tensor& loss, const Tensor& x, const Tensor& y, Reduction r, P... p) {
  On on(x);
  const int64_t n = x.numel();
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    const Loss<C, DeviceMath> of(p...);
    const T *a = x.ptr<T>(), *b = y.ptr<T>();
    if (r == Reduction::none)
      pointwise(on, of, false, n, loss.ptr<T>(), a, b);
    else
      fold_all<Sum<C>>(x.device(), of, Divided<C>{C(divisor_of(n, r))}, n, loss.ptr<T>(), a, b);
  });
}

template <class Loss, class C>
struct Gradient {
  Loss of;
  C divisor;
  __device__ C operator()(C g, C x, C y) const { return of.gradient(x, y) * (g / divisor); }
};

template <class Loss, class C>
struct TargetGradient {
  C divisor;
  __device__ C operator()(C g, C x) const { return Loss::gradient_by_target(x) * (g / divisor); }
};

// gy where it is one value, as an operand of the elements' shape.
Tensor for_each_element(const Tensor& gy, const Tensor& x, Reduction r) {
  if (r == Reduction::none) return gy;
  Dims none = x.shape();
  for (int d = 0; d < none.size(); ++d) none[d] = 0;
  return gy.alias(x.shape(), none, gy.impl()->offset);
}

template <template <class, class> class Loss, class... P>
void backward(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y, Reduction r, P... p) {
  On on(x);
  const Tensor g = for_each_element(gy, x, r);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    using Of = Loss<C, DeviceMath>;
    broadcast<T, T, T, T>(on, Gradient<Of, C>{Of(p...), C(divisor_of(x.numel(), r))}, gx.beta != 0, gx.t, g, x, y);
  });
}

void backward_target(Out g_target, const Tensor& gy, const Tensor& x, Reduction r) {
  On on(x);
  const Tensor g = for_each_element(gy, x, r);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    using Of = BinaryCrossEntropy<C, DeviceMath>;
    broadcast<T, T, T>(on, TargetGradient<Of, C>{C(divisor_of(x.numel(), r))}, g_target.beta != 0, g_target.t, g, x);
  });
}

TANDEM_KERNEL(mse_loss_forward, cuda, forward<MseLoss>);
TANDEM_KERNEL(mse_loss_backward_data, cuda, backward<MseLoss>);
TANDEM_KERNEL(l1_loss_forward, cuda, forward<L1Loss>);
TANDEM_KERNEL(l1_loss_backward_data, cuda, backward<L1Loss>);
TANDEM_KERNEL(smooth_l1_loss_forward, cuda, forward<SmoothL1Loss>);
TANDEM_KERNEL(smooth_l1_loss_backward_data, cuda, backward<SmoothL1Loss>);
TANDEM_KERNEL(binary_cross_entropy_with_logits_forward, cuda, forward<BinaryCrossEntropy>);
TANDEM_KERNEL(binary_cross_entropy_with_logits_backward_data, cuda, backward<BinaryCrossEntropy>);
TANDEM_KERNEL(binary_cross_entropy_with_logits_backward_target, cuda, backward_target);

}  // namespace
}  // namespace tandem::cuda_impl
