#include <tandem/cuda/math.h>
#include <tandem/cuda/pointwise.h>
#include <tandem/ops/unary.h>
#include <tandem/ops/unary_formulas.h>

namespace tandem::cuda_impl {
namespace {

using namespace detail;

template <class T, template <class, class> class Op>
using Formula = Op<Compute<T>, DeviceMath>;

// op.gradient as the function of an element.
template <class Op>
struct Gradient {
  Op op;
  template <class C>
  __device__ C operator()(C g, C saved) const {
    return op.gradient(g, saved);
  }
};

template <class T, class Op>
void run(Tensor& y, const Tensor& x, const Op& op) {
  On on(y);
  pointwise(on, op, false, x.numel(), y.ptr<T>(), x.ptr<T>());
}

// p: what the op is made with.
template <template <class, class> class Op, class... P>
void forward(Tensor& y, const Tensor& x, P... p) {
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    run<T>(y, x, Formula<T, Op>(p...));
  });
}

// The same for ops that leave integers what they are.
template <template <class, class> class Op, class... P>
void forward_numbers(Tensor& y, const Tensor& x, P... p) {
  if (x.dtype() == Dtype::i64) return run<int64_t>(y, x, Formula<int64_t, Op>(p...));
  if (x.dtype() == Dtype::i32) return run<int32_t>(y, x, Formula<int32_t, Op>(p...));
  if (x.dtype() == Dtype::u8) return run<uint8_t>(y, x, Formula<uint8_t, Op>(p...));
  forward<Op>(y, x, p...);
}

template <template <class, class> class Op, class... P>
void backward(Out gx, const Tensor& gy, const Tensor& saved, P... p) {
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    pointwise(on, Gradient<Formula<T, Op>>{Formula<T, Op>(p...)}, gx.beta != 0, gy.numel(), gx.t.ptr<T>(), gy.ptr<T>(),
              saved.ptr<T>());
  });
}

// Some powers by their own ops, as on the CPU.
void pow_forward_cuda(Tensor& y, const Tensor& x, double exponent) {
  if (exponent == 2) return forward<Square>(y, x);
  if (exponent == 0.5) return forward<Sqrt>(y, x);
  if (exponent == -0.5) return forward<Rsqrt>(y, x);
  if (exponent == -1) return forward<Reciprocal>(y, x);
  forward<Pow>(y, x, exponent);
}
void pow_backward_cuda(Out gx, const Tensor& gy, const Tensor& x, double exponent) {
  if (exponent == 2) return backward<Square>(std::move(gx), gy, x);
  backward<Pow>(std::move(gx), gy, x, exponent);
}

TANDEM_KERNEL(exp_forward, cuda, forward<Exp>);
TANDEM_KERNEL(exp_backward_data, cuda, backward<Exp>);
TANDEM_KERNEL(log_forward, cuda, forward<Log>);
TANDEM_KERNEL(log_backward_data, cuda, backward<Log>);
TANDEM_KERNEL(sqrt_forward, cuda, forward<Sqrt>);
TANDEM_KERNEL(sqrt_backward_data, cuda, backward<Sqrt>);
TANDEM_KERNEL(rsqrt_forward, cuda, forward<Rsqrt>);
TANDEM_KERNEL(rsqrt_backward_data, cuda, backward<Rsqrt>);
TANDEM_KERNEL(reciprocal_forward, cuda, forward<Reciprocal>);
TANDEM_KERNEL(reciprocal_backward_data, cuda, backward<Reciprocal>);
TANDEM_KERNEL(abs_forward, cuda, forward_numbers<Abs>);
TANDEM_KERNEL(abs_backward_data, cuda, backward<Abs>);
TANDEM_KERNEL(square_forward, cuda, forward_numbers<Square>);
TANDEM_KERNEL(square_backward_data, cuda, backward<Square>);
TANDEM_KERNEL(sigmoid_forward, cuda, forward<Sigmoid>);
TANDEM_KERNEL(sigmoid_backward_data, cuda, backward<Sigmoid>);
TANDEM_KERNEL(tanh_forward, cuda, forward<Tanh>);
TANDEM_KERNEL(tanh_backward_data, cuda, backward<Tanh>);
TANDEM_KERNEL(silu_forward, cuda, forward<Silu>);
TANDEM_KERNEL(silu_backward_data, cuda, backward<Silu>);
TANDEM_KERNEL(gelu_forward, cuda, forward<Gelu>);
TANDEM_KERNEL(gelu_backward_data, cuda, backward<Gelu>);
TANDEM_KERNEL(gelu_tanh_forward, cuda, forward<GeluTanh>);
TANDEM_KERNEL(gelu_tanh_backward_data, cuda, backward<GeluTanh>);
TANDEM_KERNEL(leaky_relu_forward, cuda, forward<LeakyRelu>);
TANDEM_KERNEL(leaky_relu_backward_data, cuda, backward<LeakyRelu>);
TANDEM_KERNEL(clamp_forward, cuda, forward_numbers<Clamp>);
TANDEM_KERNEL(clamp_backward_data, cuda, backward<Clamp>);
TANDEM_KERNEL(pow_forward, cuda, pow_forward_cuda);
TANDEM_KERNEL(pow_backward_data, cuda, pow_backward_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
