/// Not installed: the formulas of unary.h, one struct each, for the kernels of all devices. T is what elements are
/// computed in, M where exp and tanh come from; operator() is the value at x; gradient(g, s) is g times the derivative,
/// s being the argument or the result, whichever the op saves.
#pragma once
#include <tandem/core/export.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

namespace tandem::detail {

template <class T, class M>
struct Exp {
  TANDEM_HOST_DEVICE T operator()(T x) const { return M::exp(x); }
  TANDEM_HOST_DEVICE T gradient(T g, T y) const { return g * y; }
};

template <class T, class M>
struct Log {
  TANDEM_HOST_DEVICE T operator()(T x) const { return std::log(x); }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const { return g / x; }
};

template <class T, class M>
struct Sqrt {
  TANDEM_HOST_DEVICE T operator()(T x) const { return std::sqrt(x); }
  TANDEM_HOST_DEVICE T gradient(T g, T y) const { return g / (2 * y); }
};

template <class T, class M>
struct Rsqrt {
  TANDEM_HOST_DEVICE T operator()(T x) const { return 1 / std::sqrt(x); }
  TANDEM_HOST_DEVICE T gradient(T g, T y) const { return T(-0.5) * g * (y * y * y); }
};

template <class T, class M>
struct Reciprocal {
  TANDEM_HOST_DEVICE T operator()(T x) const { return 1 / x; }
  TANDEM_HOST_DEVICE T gradient(T g, T y) const { return -g * (y * y); }
};

template <class T, class M>
struct Abs {
  TANDEM_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return std::abs(x);
  }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const { return g * T((x > 0) - (x < 0)); }
};

template <class T, class M>
struct Square {
  TANDEM_HOST_DEVICE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return T(uint64_t(x) * uint64_t(x));  // wraps around
    else
      return x * x;
  }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const { return g * (2 * x); }
};

template <class T, class M>
struct Sigmoid {
  TANDEM_HOST_DEVICE T operator()(T x) const { return 1 / (1 + M::exp(-x)); }
  TANDEM_HOST_DEVICE T gradient(T g, T y) const { return g * (y * (1 - y)); }
};

template <class T, class M>
struct Tanh {
  TANDEM_HOST_DEVICE T operator()(T x) const { return M::tanh(x); }
  TANDEM_HOST_DEVICE T gradient(T g, T y) const { return g * (1 - y * y); }
};

template <class T, class M>
struct Silu {
  TANDEM_HOST_DEVICE T operator()(T x) const { return x / (1 + M::exp(-x)); }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const {
    const T s = 1 / (1 + M::exp(-x));
    return g * (s * (1 + x * (1 - s)));
  }
};

template <class T, class M>
struct Gelu {
  /// The share of a standard normal below x.
  TANDEM_HOST_DEVICE static T below(T x) { return T(0.5) * (1 + std::erf(x * T(1 / std::numbers::sqrt2))); }
  TANDEM_HOST_DEVICE T operator()(T x) const { return x * below(x); }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const {
    const T density = M::exp(T(-0.5) * x * x) * T(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    return g * (below(x) + x * density);
  }
};

template <class T, class M>
struct GeluTanh {
  static constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  TANDEM_HOST_DEVICE T operator()(T x) const {
    return T(0.5) * x * (1 + M::tanh(T(kScale) * (x + T(kCubic) * x * x * x)));
  }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const {
    const T t = M::tanh(T(kScale) * (x + T(kCubic) * x * x * x));
    const T inner = T(kScale) * (1 + T(3 * kCubic) * x * x);
    return g * (T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * inner);
  }
};

template <class T, class M>
struct LeakyRelu {
  explicit LeakyRelu(double slope) : slope_(T(slope)) {}
  TANDEM_HOST_DEVICE T operator()(T x) const { return x * (x > 0 ? T(1) : slope_); }
  TANDEM_HOST_DEVICE T gradient(T g, T sign) const { return g * (sign > 0 ? T(1) : slope_); }

 private:
  T slope_;
};

template <class T, class M>
struct Clamp {
  Clamp(double low, double high) : low_(bound(low)), high_(bound(high)) {}
  TANDEM_HOST_DEVICE T operator()(T x) const {
    const T y = x < low_ ? low_ : x;
    return y > high_ ? high_ : y;
  }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const { return x >= low_ && x <= high_ ? g : T(0); }

 private:
  /// One that no integer of the type reaches is its last one.
  static T bound(double v) {
    if constexpr (std::is_integral_v<T>) {
      if (v <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
      if (v >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    }
    return T(v);
  }
  T low_, high_;
};

template <class T, class M>
struct Pow {
  explicit Pow(double exponent) : exponent_(T(exponent)), less_one_(T(exponent - 1)) {}
  TANDEM_HOST_DEVICE T operator()(T x) const { return std::pow(x, exponent_); }
  TANDEM_HOST_DEVICE T gradient(T g, T x) const {
    return exponent_ == 0 ? T(0) : g * (exponent_ * std::pow(x, less_one_));
  }

 private:
  T exponent_, less_one_;
};

}  // namespace tandem::detail
