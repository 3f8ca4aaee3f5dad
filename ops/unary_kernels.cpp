// CPU kernels of unary.h: a struct per op with its value and its gradient, loops from templates. The loops have no
// calls where the compiler can see through, so that they become vectors.
#include <tandem/ops/unary.h>
#include <tandem/ops/unary_loop.h>
#include <tandem/ops/vector_exp.h>

#include <limits>
#include <numbers>

namespace tandem {
namespace {

using detail::dispatch_floating;
using detail::unary_loop;
using detail::unary_loop_into;
using detail::vector_exp;

// Between floats, both computed: g++ takes a choice for a branch that protects their computing, and gives up the loop.
inline float choose(bool first, float a, float b) {
  const uint32_t mask = first ? ~0u : 0u;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & mask) | (std::bit_cast<uint32_t>(b) & ~mask));
}

inline double vector_tanh(double x) { return std::tanh(x); }
// Within two units in the last place: a polynomial near 0 (Cephes tanhf), else by e^-2|x|, which can't overflow.
inline float vector_tanh(float x) {
  const float magnitude = std::abs(x), e = vector_exp(-2.f * magnitude), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  return std::copysign(choose(magnitude < 0.625f, p * z * magnitude + magnitude, (1.f - e) / (1.f + e)), x);
}

// Each op: operator() is its value at x; gradient(g, s) is g times its derivative, s being the argument or the result.

struct Exp {
  template <class T>
  T operator()(T x) const {
    return vector_exp(x);
  }
  template <class T>
  T gradient(T g, T y) const {
    return g * y;
  }
};

struct Log {
  template <class T>
  T operator()(T x) const {
    return std::log(x);
  }
  template <class T>
  T gradient(T g, T x) const {
    return g / x;
  }
};

struct Sqrt {
  template <class T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  T gradient(T g, T y) const {
    return g / (2 * y);
  }
};

struct Rsqrt {
  template <class T>
  T operator()(T x) const {
    return 1 / std::sqrt(x);
  }
  template <class T>
  T gradient(T g, T y) const {
    return T(-0.5) * g * (y * y * y);
  }
};

struct Reciprocal {
  template <class T>
  T operator()(T x) const {
    return 1 / x;
  }
  template <class T>
  T gradient(T g, T y) const {
    return -g * (y * y);
  }
};

struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return std::abs(x);
  }
  template <class T>
  T gradient(T g, T x) const {
    return g * T((x > 0) - (x < 0));
  }
};

struct Square {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return T(uint64_t(x) * uint64_t(x));  // wraps around
    else
      return x * x;
  }
  template <class T>
  T gradient(T g, T x) const {
    return g * (2 * x);
  }
};

struct Sigmoid {
  template <class T>
  T operator()(T x) const {
    return 1 / (1 + vector_exp(-x));
  }
  template <class T>
  T gradient(T g, T y) const {
    return g * (y * (1 - y));
  }
};

struct Tanh {
  template <class T>
  T operator()(T x) const {
    return vector_tanh(x);
  }
  template <class T>
  T gradient(T g, T y) const {
    return g * (1 - y * y);
  }
};

struct Silu {
  template <class T>
  T operator()(T x) const {
    return x / (1 + vector_exp(-x));
  }
  template <class T>
  T gradient(T g, T x) const {
    const T s = 1 / (1 + vector_exp(-x));
    return g * (s * (1 + x * (1 - s)));
  }
};

struct Gelu {
  template <class T>
  static T below(T x) {  // the share of a standard normal below x
    return T(0.5) * (1 + std::erf(x * T(1 / std::numbers::sqrt2)));
  }
  template <class T>
  T operator()(T x) const {
    return x * below(x);
  }
  template <class T>
  T gradient(T g, T x) const {
    const T density = vector_exp(T(-0.5) * x * x) * T(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    return g * (below(x) + x * density);
  }
};

struct GeluTanh {
  static constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  template <class T>
  T operator()(T x) const {
    return T(0.5) * x * (1 + vector_tanh(T(kScale) * (x + T(kCubic) * x * x * x)));
  }
  template <class T>
  T gradient(T g, T x) const {
    const T t = vector_tanh(T(kScale) * (x + T(kCubic) * x * x * x));
    const T inner = T(kScale) * (1 + T(3 * kCubic) * x * x);
    return g * (T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * inner);
  }
};

struct LeakyRelu {
  double slope;
  template <class T>
  T operator()(T x) const {
    return x * (x > 0 ? T(1) : T(slope));
  }
  template <class T>
  T gradient(T g, T sign) const {
    return g * (sign > 0 ? T(1) : T(slope));
  }
};

struct Clamp {
  double min, max;
  // A bound in T: one that no integer of the type reaches is its last one.
  template <class T>
  static T bound(double v) {
    if constexpr (std::is_integral_v<T>) {
      if (v <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
      if (v >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    }
    return T(v);
  }
  template <class T>
  T operator()(T x) const {
    const T low = bound<T>(min), high = bound<T>(max), y = x < low ? low : x;
    return y > high ? high : y;
  }
  template <class T>
  T gradient(T g, T x) const {
    return x >= T(min) && x <= T(max) ? g : T(0);
  }
};

struct Pow {
  double exponent;
  template <class T>
  T operator()(T x) const {
    return std::pow(x, T(exponent));
  }
  template <class T>
  T gradient(T g, T x) const {
    return exponent == 0 ? T(0) : g * (T(exponent) * std::pow(x, T(exponent - 1)));
  }
};

template <class Op>
void run(const char* name, Tensor& y, const Tensor& x, Op op) {
  dispatch_floating(name, x.dtype(), [&](auto t) { unary_loop<decltype(t)>(y, x, op); });
}

// The same for ops that leave integers what they are.
template <class Op>
void run_numbers(const char* name, Tensor& y, const Tensor& x, Op op) {
  if (x.dtype() == Dtype::i64) return unary_loop<int64_t>(y, x, op);
  if (x.dtype() == Dtype::i32) return unary_loop<int32_t>(y, x, op);
  if (x.dtype() == Dtype::u8) return unary_loop<uint8_t>(y, x, op);
  run(name, y, x, op);
}

template <class Op>
void run_gradient(const char* name, const Out& gx, const Tensor& gy, const Tensor& saved, Op op) {
  dispatch_floating(name, gy.dtype(), [&](auto t) {
    unary_loop_into<decltype(t)>(
        gx, [op](auto g, auto s) { return op.gradient(g, s); }, gy, saved);
  });
}

// The kernels of an op without and with parameters.
template <class Op>
void forward(Tensor& y, const Tensor& x) {
  run("unary", y, x, Op{});
}
template <class Op>
void forward_numbers(Tensor& y, const Tensor& x) {
  run_numbers("unary", y, x, Op{});
}
template <class Op>
void backward(Out gx, const Tensor& gy, const Tensor& saved) {
  run_gradient("unary", gx, gy, saved, Op{});
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

TANDEM_KERNEL(leaky_relu_forward, cpu,
              [](Tensor& y, const Tensor& x, double slope) { run("leaky_relu", y, x, LeakyRelu{slope}); });
TANDEM_KERNEL(leaky_relu_backward_data, cpu, [](Out gx, const Tensor& gy, const Tensor& sign, double slope) {
  run_gradient("leaky_relu", gx, gy, sign, LeakyRelu{slope});
});
TANDEM_KERNEL(clamp_forward, cpu, [](Tensor& y, const Tensor& x, double min, double max) {
  run_numbers("clamp", y, x, Clamp{min, max});
});
TANDEM_KERNEL(clamp_backward_data, cpu, [](Out gx, const Tensor& gy, const Tensor& x, double min, double max) {
  run_gradient("clamp", gx, gy, x, Clamp{min, max});
});
TANDEM_KERNEL(pow_forward, cpu, [](Tensor& y, const Tensor& x, double exponent) {
  if (exponent == 2) return run("pow", y, x, Square{});  // these by their own ops, as PyTorch does
  if (exponent == 0.5) return run("pow", y, x, Sqrt{});
  if (exponent == -0.5) return run("pow", y, x, Rsqrt{});
  if (exponent == -1) return run("pow", y, x, Reciprocal{});
  run("pow", y, x, Pow{exponent});
});
TANDEM_KERNEL(pow_backward_data, cpu, [](Out gx, const Tensor& gy, const Tensor& x, double exponent) {
  if (exponent == 2) return run_gradient("pow", gx, gy, x, Square{});
  run_gradient("pow", gx, gy, x, Pow{exponent});
});

}  // namespace
}  // namespace tandem
