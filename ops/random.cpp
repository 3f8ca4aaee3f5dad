#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/generator.h>
#include <tandem/ops/random.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace tandem {
namespace {

constexpr OpId kRandint{"randint"}, kUniform{"uniform_"}, kNormal{"normal_"};

// How many bits of a draw a uniform number of type T takes, what the arithmetic is done in, and T's largest value.
template <class T>
struct Drawn;
template <>
struct Drawn<float> {
  using Real = float;
  static constexpr int kDigits = 24;
  static constexpr double kLargest = std::numeric_limits<float>::max();
};
template <>
struct Drawn<double> {
  using Real = double;
  static constexpr int kDigits = 53;
  static constexpr double kLargest = std::numeric_limits<double>::max();
};
template <>
struct Drawn<f16> {
  using Real = float;
  static constexpr int kDigits = 11;
  static constexpr double kLargest = 65504;
};
template <>
struct Drawn<bf16> {
  using Real = float;
  static constexpr int kDigits = 8;
  static constexpr double kLargest = 0x1.fep127;
};

template <class F>
void dispatch_floating(OpId id, Dtype t, F&& f) {
  check<DtypeError>(is_floating(t), "[", id.name, "] takes floating tensors, got ", t);
  dispatch_all(t, [&](auto v) {
    if constexpr (requires { Drawn<decltype(v)>::kDigits; }) f(v);
  });
}

template <class T>
auto rounded(double v) {
  return typename Drawn<T>::Real(T(typename Drawn<T>::Real(v)));
}

// [0, 1)
template <class T>
auto uniform(Generator& g) {
  using Real = typename Drawn<T>::Real;
  if constexpr (std::is_same_v<T, double>)
    return g.uniform_double();
  else
    return Real(g.random() & ((1u << Drawn<T>::kDigits) - 1)) * (Real(1) / Real(1u << Drawn<T>::kDigits));
}

template <class T>
void fill_uniform(T* y, int64_t n, double low, double high, Generator& g) {
  const auto from = rounded<T>(low), width = rounded<T>(rounded<T>(high) - from);
  for (int64_t i = 0; i < n; ++i) y[i] = T(std::fma(uniform<T>(g), width, from));  // one rounding, as PyTorch's build
}

// Box-Muller on 16 uniform numbers: the first eight give radii, the others angles. Each step is rounded to T.
template <class T>
void normal_16(T* y, double mean, double std) {
  using Real = typename Drawn<T>::Real;
  constexpr Real kTwoPi = Real(2 * std::numbers::pi);
  const Real m = rounded<T>(mean), s = rounded<T>(std);
  for (int j = 0; j < 8; ++j) {
    const Real u = T(1 - Real(y[j])), log_u = T(std::log(u)), radius = T(std::sqrt(Real(T(-2 * log_u))));
    const Real angle = T(kTwoPi * Real(y[j + 8]));
    const Real cosine = T(std::cos(angle)), sine = T(std::sin(angle));
    y[j] = T(std::fma(Real(T(radius * cosine)), s, m));
    y[j + 8] = T(std::fma(Real(T(radius * sine)), s, m));
  }
}

// From 16 values on, blocks of 16; what is left at the end is drawn anew, together with its predecessors.
template <class T>
void fill_normal(T* y, int64_t n, double mean, double std, Generator& g) {
  if (n < 16) {
    for (int64_t i = 0; i < n; ++i) y[i] = T(typename Drawn<T>::Real(g.normal_double() * std + mean));
    return;
  }
  for (int64_t i = 0; i < n; ++i) y[i] = T(uniform<T>(g));
  for (int64_t i = 0; i + 16 <= n; i += 16) normal_16(y + i, mean, std);
  if (n % 16 == 0) return;
  for (int64_t i = n - 16; i < n; ++i) y[i] = T(uniform<T>(g));
  normal_16(y + n - 16, mean, std);
}

// f(host) fills row-major host memory of x's shape; then x has those values.
template <class F>
void fill_from_host(Tensor& x, F&& f) {
  if (x.numel() == 0) return;
  if (x.device().is_cpu() && x.is_contiguous()) return f(x);
  Tensor host = empty(x.shape(), {.dtype = x.dtype(), .device = cpu()});
  f(host);
  copy_into({x, 0}, host);
}

void require_may_change(OpId id, const Tensor& x) {
  check(!context().grad || !x.requires_grad(), "[", id.name,
        "] this tensor requires grad and can't be filled in place while ops are recorded; use a NoGradGuard");
}

// A floating dtype may round `low + 1` down to below `low`, or `high - 1` up to `high`: both bounds move inwards to the
// next number that it has, as PyTorch moves them.
template <class T>
void move_inwards(int64_t& low, int64_t& high) {
  auto spacing = [](int64_t v) { return int64_t(1) << (std::bit_width(uint64_t(std::abs(v))) - Drawn<T>::kDigits); };
  const auto above_low = int64_t(rounded<T>(double(low + 1))), below_high = int64_t(rounded<T>(double(high - 1)));
  if (above_low < low) low = above_low + spacing(low + 1);
  if (below_high >= high) high = below_high - spacing(high - 1);
}

bool fits(Dtype t, int64_t v) {
  switch (t) {
    case Dtype::f16: return std::abs(double(v)) <= Drawn<f16>::kLargest;
    case Dtype::i32: return v == int32_t(v);
    case Dtype::u8: return v == uint8_t(v);
    case Dtype::boolean: return v == 0 || v == 1;
    default: return true;
  }
}

template <class Draw>
Tensor drawn(const Dims& shape, TensorOptions o, Draw&& draw) {
  const bool requires_grad = std::exchange(o.requires_grad, false);
  Tensor x = empty(shape, o);
  draw(x);
  if (requires_grad) x.set_requires_grad();
  return x;
}

}  // namespace

Tensor& uniform_(Tensor& x_in, double low, double high) {
  auto [x] = enter(kUniform, x_in);
  require_may_change(kUniform, x);
  dispatch_floating(kUniform, x.dtype(), [&](auto t) {
    using T = decltype(t);
    constexpr double kLargest = Drawn<T>::kLargest;
    check(low <= high && -kLargest <= low && high <= kLargest && high - low <= kLargest, "[uniform_] from ", low,
          " to ", high, " is no range of ", x.dtype());
    fill_from_host(x_in,
                   [&](Tensor& host) { fill_uniform(host.ptr<T>(), host.numel(), low, high, default_generator()); });
  });
  x.storage()->bump();
  return x_in;
}

Tensor& normal_(Tensor& x_in, double mean, double std) {
  auto [x] = enter(kNormal, x_in);
  require_may_change(kNormal, x);
  check(std >= 0, "[normal_] std is ", std, ", and may not be negative");
  dispatch_floating(kNormal, x.dtype(), [&](auto t) {
    using T = decltype(t);
    fill_from_host(x_in,
                   [&](Tensor& host) { fill_normal(host.ptr<T>(), host.numel(), mean, std, default_generator()); });
  });
  x.storage()->bump();
  return x_in;
}

Tensor rand(const Dims& shape, TensorOptions o) {
  return drawn(shape, o, [](Tensor& x) { uniform_(x); });
}

Tensor randn(const Dims& shape, TensorOptions o) {
  return drawn(shape, o, [](Tensor& x) { normal_(x); });
}

Tensor randint(int64_t low, int64_t high, const Dims& shape, TensorOptions o) {
  context().op = kRandint.name;
  check(low < high, "[randint] an empty range from ", low, " to ", high);
  check(fits(o.dtype, low) && fits(o.dtype, high - 1), "[randint] ", low, " to ", high, " does not fit ", o.dtype);
  return drawn(shape, o, [&](Tensor& x) {
    dispatch_all(o.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (requires { Drawn<T>::kDigits; }) move_inwards<T>(low, high);
      check(low < high, "[randint] ", o.dtype, " has no number from ", low, " to ", high);
      fill_from_host(x, [&](Tensor& host) {
        T* y = host.ptr<T>();
        for (int64_t i = 0; i < host.numel(); ++i) {
          const int64_t v = default_generator().randint(low, high);
          if constexpr (std::is_integral_v<T>)
            y[i] = T(v);
          else
            y[i] = T(typename Drawn<T>::Real(v));
        }
      });
    });
  });
}

Tensor randint(int64_t high, const Dims& shape, TensorOptions o) { return randint(0, high, shape, o); }

Tensor randperm(int64_t n, TensorOptions o) {
  Tensor host = from_vector(default_generator().randperm(n), {n}, {.device = cpu()});
  return o.dtype == Dtype::i64 && o.device == cpu() && !o.requires_grad ? host : copy_of(host, o);
}

}  // namespace tandem
