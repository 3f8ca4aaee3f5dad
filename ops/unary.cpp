#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/unary.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

constexpr OpId kExp{"exp"};
constexpr OpId kLog{"log"};
constexpr OpId kSqrt{"sqrt"};
constexpr OpId kRsqrt{"rsqrt"};
constexpr OpId kReciprocal{"reciprocal"};
constexpr OpId kAbs{"abs"};
constexpr OpId kSquare{"square"};
constexpr OpId kSigmoid{"sigmoid"};
constexpr OpId kTanh{"tanh"};
constexpr OpId kSilu{"silu"};
constexpr OpId kGelu{"gelu"};
constexpr OpId kLeakyRelu{"leaky_relu"};
constexpr OpId kClamp{"clamp"};
constexpr OpId kPow{"pow"};

template <class... P>
using Forward = KernelSlot<void(Tensor&, const Tensor&, P...)>;
template <class... P>
using Backward = KernelSlot<void(Out, const Tensor&, const Tensor&, P...)>;

// y, with a gradient computed from gy and `saved`, which is dense in y's layout. The slots outlive every graph.
template <class... P>
Tensor recorded(const char* name, Tensor y, const Tensor& x, const Tensor& saved, const Backward<P...>& backward,
                P... p) {
  if (!wants_grad({x})) return y;
  return record(name, std::move(y), {x}, [s = Saved(name, saved), &backward, p...](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_layout(std::exchange(gy, {}), s().layout());  // maybe the only handle: then it is written over
    Out gx = t[0].out_over(g);
    backward(g.device(), gx, g, s(), p...);
  });
}

// An op whose gradient needs the argument. `integers`: they stay what they are.
template <class... P>
Tensor of_argument(OpId id, const Tensor& x_in, bool integers, const Forward<P...>& forward,
                   const Backward<P...>& backward, P... p) {
  auto [x] = enter(id, x_in);
  check<DtypeError>(!integers || x.dtype() != Dtype::boolean, "[", id.name, "] takes numbers, got bool");
  const bool widen = !integers && !is_floating(x.dtype());
  Tensor in = widen ? copy_of(x, {.dtype = Dtype::f32, .device = x.device(), .layout = x.layout()}) : as_dense(x);
  Tensor y = empty_like(in);
  forward(y.device(), y, in, p...);
  return recorded(id.name, std::move(y), x, in, backward, p...);
}

// An op whose gradient needs the result: a temporary argument is written over.
template <class... P>
Tensor of_result(OpId id, const Tensor& x_in, const Forward<P...>& forward, const Backward<P...>& backward, P... p) {
  auto [x] = enter(id, x_in);
  const bool over = x.unique() && is_floating(x.dtype());  // asked before another handle is made
  const bool widen = !is_floating(x.dtype());
  Tensor in = widen ? copy_of(x, {.dtype = Dtype::f32, .device = x.device(), .layout = x.layout()}) : as_dense(x);
  Tensor y = over ? x.detach() : empty_like(in);
  forward(y.device(), y, in, p...);
  return recorded(id.name, y, x, y, backward, p...);
}

}  // namespace

Tensor exp(Tensor x) { return of_result(kExp, x, exp_forward, exp_backward_data); }
Tensor log(const Tensor& x) { return of_argument(kLog, x, false, log_forward, log_backward_data); }
Tensor sqrt(Tensor x) { return of_result(kSqrt, x, sqrt_forward, sqrt_backward_data); }
Tensor rsqrt(Tensor x) { return of_result(kRsqrt, x, rsqrt_forward, rsqrt_backward_data); }
Tensor reciprocal(Tensor x) { return of_result(kReciprocal, x, reciprocal_forward, reciprocal_backward_data); }
Tensor abs(const Tensor& x) { return of_argument(kAbs, x, true, abs_forward, abs_backward_data); }
Tensor square(const Tensor& x) { return of_argument(kSquare, x, true, square_forward, square_backward_data); }
Tensor sigmoid(Tensor x) { return of_result(kSigmoid, x, sigmoid_forward, sigmoid_backward_data); }
Tensor tanh(Tensor x) { return of_result(kTanh, x, tanh_forward, tanh_backward_data); }
Tensor silu(const Tensor& x) { return of_argument(kSilu, x, false, silu_forward, silu_backward_data); }

Tensor gelu(const Tensor& x, const std::string& approximate) {
  if (approximate == "tanh") return of_argument(kGelu, x, false, gelu_tanh_forward, gelu_tanh_backward_data);
  check(approximate == "none", "[gelu] approximate is \"none\" or \"tanh\", got \"", approximate, "\"");
  return of_argument(kGelu, x, false, gelu_forward, gelu_backward_data);
}

Tensor leaky_relu(Tensor x, double slope) {
  if (slope >= 0) return of_result(kLeakyRelu, x, leaky_relu_forward, leaky_relu_backward_data, slope);
  return of_argument(kLeakyRelu, x, false, leaky_relu_forward, leaky_relu_backward_data, slope);
}

Tensor clamp(const Tensor& x, std::optional<double> min, std::optional<double> max) {
  check(min || max, "[clamp] at least one of min and max is needed");
  const double infinity = std::numeric_limits<double>::infinity();
  for (auto bound : {min, max})
    check<DtypeError>(!bound || is_floating(x.dtype()) || *bound == std::trunc(*bound), "[clamp] bound ",
                      bound.value_or(0), " for ", x.dtype());
  return of_argument(kClamp, x, true, clamp_forward, clamp_backward_data, min.value_or(-infinity),
                     max.value_or(infinity));
}

Tensor pow(const Tensor& x, double exponent) {
  check<DtypeError>(is_floating(x.dtype()), "[pow] takes floating tensors, got ", x.dtype());
  return of_argument(kPow, x, false, pow_forward, pow_backward_data, exponent);
}

}  // namespace tandem
