#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/arithmetic.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/binary_loop.h>
#include <tandem/ops/broadcast.h>
#include <tandem/ops/unary_loop.h>

#include <cmath>

namespace tandem {
namespace {

constexpr OpId kAdd{"add"};
constexpr OpId kSub{"sub"};
constexpr OpId kMul{"mul"};
constexpr OpId kNeg{"neg"};
constexpr OpId kDiv{"div"};
constexpr OpId kMaximum{"maximum"};
constexpr OpId kMinimum{"minimum"};

// A number as the tensor beside it wants it, for kernels that take two tensors.
Tensor beside(const Tensor& x, Scalar s, Dtype dtype) {
  return full({}, s.value, {.dtype = dtype, .device = x.device()});
}
Tensor beside(const Tensor& x, Scalar s) { return beside(x, s, result_dtype(x.dtype(), s)); }
Dtype true_division(Dtype t) { return is_floating(t) ? t : Dtype::f32; }

void give_scaled(Target& gx, Tensor& gy, double factor) {
  if (factor == 1) return give_sum_to(gx, gy);
  if (gx.shape() == gy.shape())
    return give_stretched(gx, gy, false, [=](Out o, const Tensor& g) { scale_forward(g.device(), o, g, factor); });
  Tensor sum = sum_to(gy, gx.shape());
  give_stretched(gx, sum, true, [=](Out o, const Tensor& g) { scale_forward(g.device(), o, g, factor); });
}

Tensor add_or_sub(const char* name, const Tensor& a, const Tensor& b, double alpha) {
  const Dtype dtype = result_dtype(a, b);
  check<DtypeError>(is_floating(dtype) || alpha == std::trunc(alpha), "[", name, "] alpha ", alpha, " for ", dtype);
  Operands o = operands(name, a, b, dtype);
  Tensor y = o.result(dtype);
  add_forward(y.device(), y, o.a, o.b, alpha);
  return record(name, std::move(y), {a, b}, [alpha](Tensor& gy, Targets t) {
    if (t[1]) {
      Tensor g = as_dense(gy);
      give_scaled(t[1], g, alpha);
    }
    if (t[0]) give_sum_to(t[0], std::move(gy));
  });
}

Tensor shifted(const char* name, const Tensor& x, Scalar s, double value) {
  Tensor in = stretched(x, result_dtype(x.dtype(), s), x.shape(), x.layout());
  check<DtypeError>(is_floating(in.dtype()) || value == std::trunc(value), "[", name, "] a fractional alpha for ",
                    in.dtype());
  Tensor y = empty_like(in);
  shift_forward(y.device(), y, in, value);
  return record(name, std::move(y), {x}, [](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(std::move(gy));
  });
}

Tensor scaled(const char* name, const Tensor& x, Scalar s) {
  Tensor in = stretched(x, result_dtype(x.dtype(), s), x.shape(), x.layout());
  Tensor y = empty_like(in);
  scale_forward(y.device(), Out{y, 0}, in, s.value);
  return record(name, std::move(y), {x}, [factor = s.value](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_dense(std::exchange(gy, {}));
    give_stretched(t[0], g, true, [=](Out o, const Tensor& g) { scale_forward(g.device(), o, g, factor); });
  });
}

// With a and b exchanged one of them is the other.
Tensor maximum_or_minimum(const char* name, const Tensor& a, const Tensor& b, bool minimum) {
  Operands o = operands(name, a, b, result_dtype(a, b));
  Tensor y = o.result(o.a.dtype());
  (minimum ? minimum_forward : maximum_forward)(y.device(), y, o.a, o.b);
  if (!wants_grad({a, b})) return y;
  auto closure = [a = Saved(name, o.a), b = Saved(name, o.b), layout = o.layout, minimum](Tensor& gy, Targets t) {
    Tensor g = as_layout(std::exchange(gy, {}), layout);
    auto give = [&](Target& to, bool last, const Tensor& winner, const Tensor& other) {
      give_stretched(to, g, last, [&](Out o, const Tensor& g) {
        maximum_backward_data(g.device(), o, g, minimum ? other : winner, minimum ? winner : other);
      });
    };
    if (t[1]) give(t[1], false, b(), a());
    if (t[0]) give(t[0], true, a(), b());
  };
  return record(name, std::move(y), {a, b}, std::move(closure));
}

}  // namespace

Tensor add(const Tensor& a_in, const Tensor& b_in, double alpha) {
  auto [a, b] = enter(kAdd, a_in, b_in);
  return add_or_sub("add", a, b, alpha);
}
Tensor add(const Tensor& a_in, Scalar b, double alpha) {
  auto [a] = enter(kAdd, a_in);
  return shifted("add", a, b, b.value * alpha);
}

Tensor sub(const Tensor& a_in, const Tensor& b_in, double alpha) {
  auto [a, b] = enter(kSub, a_in, b_in);
  check<DtypeError>(a.dtype() != Dtype::boolean || b.dtype() != Dtype::boolean, "[sub] two bool tensors");
  return add_or_sub("sub", a, b, -alpha);
}
Tensor sub(const Tensor& a_in, Scalar b, double alpha) {
  auto [a] = enter(kSub, a_in);
  return shifted("sub", a, b, -b.value * alpha);
}
Tensor sub(Scalar a, const Tensor& b) { return sub(beside(b, a), b); }

Tensor mul(const Tensor& a_in, const Tensor& b_in) {
  auto [a, b] = enter(kMul, a_in, b_in);
  Operands o = operands("mul", a, b, result_dtype(a, b));
  Tensor y = o.result(o.a.dtype());
  mul_forward(y.device(), Out{y, 0}, o.a, o.b);
  if (!wants_grad({a, b})) return y;
  // Each is saved for the other's sake only.
  Saved sa = b.requires_grad() ? Saved("mul", o.a) : Saved(), sb = a.requires_grad() ? Saved("mul", o.b) : Saved();
  return record("mul", std::move(y), {a, b}, [a = sa, b = sb, layout = o.layout](Tensor& gy, Targets t) {
    Tensor g = as_layout(std::exchange(gy, {}), layout);
    if (t[1]) give_stretched(t[1], g, false, [&](Out o, const Tensor& g) { mul_forward(g.device(), o, g, a()); });
    if (t[0]) give_stretched(t[0], g, true, [&](Out o, const Tensor& g) { mul_forward(g.device(), o, g, b()); });
  });
}
Tensor mul(const Tensor& x_in, Scalar s) {
  auto [x] = enter(kMul, x_in);
  return scaled("mul", x, s);
}
Tensor neg(const Tensor& x_in) {
  auto [x] = enter(kNeg, x_in);
  check<DtypeError>(x.dtype() != Dtype::boolean, "[neg] takes numbers, got bool: logical_not negates those");
  return scaled("neg", x, -1);
}

Tensor div(const Tensor& a_in, const Tensor& b_in) {
  auto [a, b] = enter(kDiv, a_in, b_in);
  Operands o = operands("div", a, b, true_division(result_dtype(a, b)));
  Tensor y = o.result(o.a.dtype());
  div_forward(y.device(), Out{y, 0}, o.a, o.b);
  if (!wants_grad({a, b})) return y;
  Saved sa = b.requires_grad() ? Saved("div", o.a) : Saved();
  return record("div", std::move(y), {a, b}, [a = sa, b = Saved("div", o.b), layout = o.layout](Tensor& gy, Targets t) {
    Tensor g = as_layout(std::exchange(gy, {}), layout);
    if (t[1])
      give_stretched(t[1], g, false, [&](Out o, const Tensor& g) { div_backward_divisor(g.device(), o, g, a(), b()); });
    if (t[0]) give_stretched(t[0], g, true, [&](Out o, const Tensor& g) { div_forward(g.device(), o, g, b()); });
  });
}
Tensor div(const Tensor& a, Scalar b) { return div(a, beside(a, b, true_division(a.dtype()))); }
Tensor div(Scalar a, const Tensor& b) { return div(beside(b, a, true_division(b.dtype())), b); }

Tensor maximum(const Tensor& a_in, const Tensor& b_in) {
  auto [a, b] = enter(kMaximum, a_in, b_in);
  return maximum_or_minimum("maximum", a, b, false);
}
Tensor maximum(const Tensor& a, Scalar b) { return maximum(a, beside(a, b)); }

Tensor minimum(const Tensor& a_in, const Tensor& b_in) {
  auto [a, b] = enter(kMinimum, a_in, b_in);
  return maximum_or_minimum("minimum", a, b, true);
}
Tensor minimum(const Tensor& a, Scalar b) { return minimum(a, beside(a, b)); }

namespace {

using detail::binary_loop;
using detail::binary_loop_into;
using detail::Compute;
using detail::dispatch_floating;
using detail::number;
using detail::plus;
using detail::times;
using detail::unary_loop;
using detail::unary_loop_into;

void add_cpu(Tensor& y, const Tensor& a, const Tensor& b, double alpha) {
  dispatch_all(y.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    const C k = number<C>(alpha);
    binary_loop<T, T>(y, a, b, [k](C u, C v) { return plus(u, times(k, v)); });
  });
}

void mul_cpu(Out y, const Tensor& a, const Tensor& b) {
  dispatch_all(y.t.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    auto op = [](C u, C v) { return times(u, v); };
    if constexpr (std::is_integral_v<T>)
      binary_loop<T, T>(y.t, a, b, op);
    else
      binary_loop_into<T>(y, a, b, op);
  });
}

void div_cpu(Out y, const Tensor& a, const Tensor& b) {
  dispatch_floating("div", y.t.dtype(), [&](auto t) {
    using C = Compute<decltype(t)>;
    binary_loop_into<decltype(t)>(y, a, b, [](C u, C v) { return u / v; });
  });
}

void maximum_cpu(Tensor& y, const Tensor& a, const Tensor& b) {
  dispatch_all(y.dtype(), [&](auto t) {
    using C = Compute<decltype(t)>;
    binary_loop<decltype(t), decltype(t)>(y, a, b, [](C u, C v) { return u >= v || u != u ? u : v; });
  });
}
void minimum_cpu(Tensor& y, const Tensor& a, const Tensor& b) {
  dispatch_all(y.dtype(), [&](auto t) {
    using C = Compute<decltype(t)>;
    binary_loop<decltype(t), decltype(t)>(y, a, b, [](C u, C v) { return u <= v || u != u ? u : v; });
  });
}

// out = beta * out + op(gy, a, b); gy is dense like out.
template <class Op>
void gradient_loop(const char* name, const Out& out, const Tensor& gy, const Tensor& a, const Tensor& b, Op op) {
  dispatch_floating(name, gy.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    T* const yp = out.t.ptr<T>();
    const T *const gp = gy.ptr<T>(), *const ap = a.ptr<T>(), *const bp = b.ptr<T>();
    const bool add = out.beta != 0;
    detail::for_runs(out.t, a, b, [=](int64_t yo, int64_t ao, int64_t bo, int64_t n, auto a_step, auto b_step) {
      T* q = yp + yo;
      const T *g = gp + yo, *p = ap + ao, *r = bp + bo;
      if (add) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) detail::assign(q[i], C(q[i]) + op(C(g[i]), C(p[i * a_step]), C(r[i * b_step])));
      } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) detail::assign(q[i], op(C(g[i]), C(p[i * a_step]), C(r[i * b_step])));
      }
    });
  });
}

void div_backward_divisor_cpu(Out gb, const Tensor& gy, const Tensor& a, const Tensor& b) {
  gradient_loop("div", gb, gy, a, b, [](auto g, auto u, auto v) { return -g * (u / v / v); });
}
void maximum_backward_data_cpu(Out ga, const Tensor& gy, const Tensor& a, const Tensor& b) {
  gradient_loop("maximum", ga, gy, a, b, [](auto g, auto u, auto v) {
    using C = decltype(g);
    return u < v ? C(0) : u == v ? g * C(0.5) : g;
  });
}

void scale_cpu(Out y, const Tensor& x, double factor) {
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    const C k = number<C>(factor);
    if constexpr (std::is_integral_v<T>)
      unary_loop<T>(y.t, x, [k](C v) { return times(v, k); });
    else
      unary_loop_into<T>(
          y, [k](C v) { return v * k; }, x);
  });
}
void shift_cpu(Tensor& y, const Tensor& x, double value) {
  dispatch_all(x.dtype(), [&](auto t) {
    using C = Compute<decltype(t)>;
    const C k = number<C>(value);
    unary_loop<decltype(t)>(y, x, [k](C v) { return plus(v, k); });
  });
}

TANDEM_KERNEL(add_forward, cpu, add_cpu);
TANDEM_KERNEL(mul_forward, cpu, mul_cpu);
TANDEM_KERNEL(div_forward, cpu, div_cpu);
TANDEM_KERNEL(div_backward_divisor, cpu, div_backward_divisor_cpu);
TANDEM_KERNEL(maximum_forward, cpu, maximum_cpu);
TANDEM_KERNEL(minimum_forward, cpu, minimum_cpu);
TANDEM_KERNEL(maximum_backward_data, cpu, maximum_backward_data_cpu);
TANDEM_KERNEL(scale_forward, cpu, scale_cpu);
TANDEM_KERNEL(shift_forward, cpu, shift_cpu);

}  // namespace
}  // namespace tandem
