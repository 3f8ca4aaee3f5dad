// CPU kernels of unary.h: its formulas in loops that compilers turn into vectors, as far as they can see through.
#include <tandem/core/context.h>
#include <tandem/ops/unary.h>
#include <tandem/ops/unary_formulas.h>
#include <tandem/ops/unary_loop.h>
#include <tandem/ops/vector_math.h>

namespace tandem {
namespace {

using namespace detail;

template <class T, template <class, class> class Op>
using Formula = Op<Compute<T>, VectorMath>;

// p: what the op is made with.
template <template <class, class> class Op, class... P>
void forward(Tensor& y, const Tensor& x, P... p) {
  dispatch_floating(context().op, x.dtype(), [&](auto t) {
    using T = decltype(t);
    unary_loop<T>(y, x, Formula<T, Op>(p...));
  });
}

// The same for ops that leave integers what they are.
template <template <class, class> class Op, class... P>
void forward_numbers(Tensor& y, const Tensor& x, P... p) {
  if (x.dtype() == Dtype::i64) return unary_loop<int64_t>(y, x, Formula<int64_t, Op>(p...));
  if (x.dtype() == Dtype::i32) return unary_loop<int32_t>(y, x, Formula<int32_t, Op>(p...));
  if (x.dtype() == Dtype::u8) return unary_loop<uint8_t>(y, x, Formula<uint8_t, Op>(p...));
  forward<Op>(y, x, p...);
}

template <template <class, class> class Op, class... P>
void backward(Out gx, const Tensor& gy, const Tensor& saved, P... p) {
  dispatch_floating(context().op, gy.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    unary_loop_into<T>(
        gx, [op = Formula<T, Op>(p...)](C g, C s) { return op.gradient(g, s); }, gy, saved);
  });
}

// Some powers by their own ops, as PyTorch takes them.
void pow_forward_cpu(Tensor& y, const Tensor& x, double exponent) {
  if (exponent == 2) return forward<Square>(y, x);
  if (exponent == 0.5) return forward<Sqrt>(y, x);
  if (exponent == -0.5) return forward<Rsqrt>(y, x);
  if (exponent == -1) return forward<Reciprocal>(y, x);
  forward<Pow>(y, x, exponent);
}
void pow_backward_cpu(Out gx, const Tensor& gy, const Tensor& x, double exponent) {
  if (exponent == 2) return backward<Square>(std::move(gx), gy, x);
  backward<Pow>(std::move(gx), gy, x, exponent);
}

TANDEM_KERNEL(exp_forward, cpu, forward<Exp>);
TANDEM_KERNEL(exp_backward_data, cpu, backward<Exp>);
TANDEM_KERNEL(log_forward, cpu, forward<Log>);
TANDEM_KERNEL(log_backward_data, cpu, backward<Log>);
TANDEM_KERNEL(sqrt_forward, cpu, forward<Sqrt>);
TANDEM_KERNEL(sqrt_backward_data, cpu, backward<Sqrt>);
TANDEM_KERNEL(rsqrt_forward, cpu, forward<Rsqrt>);
TANDEM_KERNEL(rsqrt_backward_data, cpu, backward<Rsqrt>);
TANDEM_KERNEL(reciprocal_forward, cpu, forward<Reciprocal>);
TANDEM_KERNEL(reciprocal_backward_data, cpu, backward<Reciprocal>);
TANDEM_KERNEL(abs_forward, cpu, forward_numbers<Abs>);
TANDEM_KERNEL(abs_backward_data, cpu, backward<Abs>);
TANDEM_KERNEL(square_forward, cpu, forward_numbers<Square>);
TANDEM_KERNEL(square_backward_data, cpu, backward<Square>);
TANDEM_KERNEL(sigmoid_forward, cpu, forward<Sigmoid>);
TANDEM_KERNEL(sigmoid_backward_data, cpu, backward<Sigmoid>);
TANDEM_KERNEL(tanh_forward, cpu, forward<Tanh>);
TANDEM_KERNEL(tanh_backward_data, cpu, backward<Tanh>);
TANDEM_KERNEL(silu_forward, cpu, forward<Silu>);
TANDEM_KERNEL(silu_backward_data, cpu, backward<Silu>);
TANDEM_KERNEL(gelu_forward, cpu, forward<Gelu>);
TANDEM_KERNEL(gelu_backward_data, cpu, backward<Gelu>);
TANDEM_KERNEL(gelu_tanh_forward, cpu, forward<GeluTanh>);
TANDEM_KERNEL(gelu_tanh_backward_data, cpu, backward<GeluTanh>);
TANDEM_KERNEL(leaky_relu_forward, cpu, forward<LeakyRelu>);
TANDEM_KERNEL(leaky_relu_backward_data, cpu, backward<LeakyRelu>);
TANDEM_KERNEL(clamp_forward, cpu, forward_numbers<Clamp>);
TANDEM_KERNEL(clamp_backward_data, cpu, backward<Clamp>);
TANDEM_KERNEL(pow_forward, cpu, pow_forward_cpu);
TANDEM_KERNEL(pow_backward_data, cpu, pow_backward_cpu);

}  // namespace
}  // namespace tandem
