#include <tandem/core/autograd.h>
#include <tandem/core/enter.h>
#include <tandem/ops/binary_loop.h>
#include <tandem/ops/broadcast.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/unary.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>

namespace tandem {
namespace {

constexpr OpId kEq{"eq"};
constexpr OpId kNe{"ne"};
constexpr OpId kLt{"lt"};
constexpr OpId kLe{"le"};
constexpr OpId kGt{"gt"};
constexpr OpId kGe{"ge"};
constexpr OpId kAny{"any"};

using Comparison = KernelSlot<void(Tensor&, const Tensor&, const Tensor&)>;

Tensor compared(OpId id, const Comparison& kernel, const Tensor& a_in, const Tensor& b_in, bool exchanged = false) {
  auto [a, b] = enter(id, a_in, b_in);
  const Dtype dtype = result_dtype(a, b);
  Operands o = operands(id.name, a, b, is_half(dtype) ? Dtype::f32 : dtype);
  Tensor y = o.result(Dtype::boolean);
  kernel(y.device(), y, exchanged ? o.b : o.a, exchanged ? o.a : o.b);
  return y;
}

Tensor compared(OpId id, const Comparison& kernel, const Tensor& a, Scalar b, bool exchanged = false) {
  const Dtype dtype = is_floating(a.dtype()) ? a.dtype() : b.whole ? Dtype::i64 : Dtype::f64;
  Tensor number = full({}, b.value, {.dtype = dtype, .device = a.device()});
  if (dtype == a.dtype()) return compared(id, kernel, a, number, exchanged);
  return compared(id, kernel, copy_of(a, {.dtype = dtype, .device = a.device(), .layout = a.layout()}), number,
                  exchanged);
}

Tensor truth(const Tensor& x) {
  if (x.dtype() == Dtype::boolean) return x;
  return copy_of(x, {.dtype = Dtype::boolean, .device = x.device(), .layout = x.layout()});
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compared(kEq, eq_forward, a, b); }
Tensor eq(const Tensor& a, Scalar b) { return compared(kEq, eq_forward, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compared(kNe, ne_forward, a, b); }
Tensor ne(const Tensor& a, Scalar b) { return compared(kNe, ne_forward, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compared(kLt, lt_forward, a, b); }
Tensor lt(const Tensor& a, Scalar b) { return compared(kLt, lt_forward, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compared(kLe, le_forward, a, b); }
Tensor le(const Tensor& a, Scalar b) { return compared(kLe, le_forward, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return compared(kGt, lt_forward, a, b, true); }
Tensor gt(const Tensor& a, Scalar b) { return compared(kGt, lt_forward, a, b, true); }
Tensor ge(const Tensor& a, const Tensor& b) { return compared(kGe, le_forward, a, b, true); }
Tensor ge(const Tensor& a, Scalar b) { return compared(kGe, le_forward, a, b, true); }

Tensor logical_not(const Tensor& x) { return eq(x, 0); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return mul(truth(a), truth(b)); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return add(truth(a), truth(b)); }

Tensor isnan(const Tensor& x) { return ne(x, x); }
Tensor isfinite(const Tensor& x) {
  if (!is_floating(x.dtype())) return ones(x.shape(), {.dtype = Dtype::boolean, .device = x.device()});
  return lt(abs(x.detach()), std::numeric_limits<double>::infinity());
}

Tensor any(const Tensor& x_in) {
  auto [x] = enter(kAny, x_in);
  Tensor y = empty({}, {.dtype = Dtype::boolean, .device = x.device()});
  any_forward(y.device(), y, as_dense(truth(x)));
  return y;
}
Tensor all(const Tensor& x) { return logical_not(any(logical_not(x))); }

bool equal(const Tensor& a, const Tensor& b) {
  require_same_device("equal", {&a, &b});
  return a.shape() == b.shape() && all(eq(a, b)).item<bool>();
}

bool allclose(const Tensor& a_in, const Tensor& b_in, double rtol, double atol, bool equal_nan) {
  NoGradGuard no_grad;
  auto floating = [](const Tensor& x) {
    return is_floating(x.dtype()) ? x : copy_of(x, {.dtype = Dtype::f64, .device = x.device()});
  };
  const Tensor a = floating(a_in), b = floating(b_in);
  Tensor near = logical_and(le(abs(a - b), atol + rtol * abs(b)), isfinite(b));
  Tensor close = logical_or(eq(a, b), near);
  if (equal_nan) close = logical_or(close, logical_and(isnan(a), isnan(b)));
  return all(close).item<bool>();
}

namespace {

// Calls f(T{}) with the C++ type of any dtype that is compared as it is.
template <class F>
void dispatch_compared(const char* op, Dtype t, F&& f) {
  switch (t) {
    case Dtype::i64: return f(int64_t{});
    case Dtype::i32: return f(int32_t{});
    case Dtype::u8: return f(uint8_t{});
    case Dtype::boolean: return f(bool{});
    default: dispatch_real(op, t, f);
  }
}

template <class Op>
void compare_cpu(Tensor& y, const Tensor& a, const Tensor& b) {
  dispatch_compared("compare", a.dtype(), [&](auto t) { detail::binary_loop<bool, decltype(t)>(y, a, b, Op{}); });
}

void any_cpu(Tensor& y, const Tensor& x) {
  const bool* p = x.ptr<bool>();
  std::atomic<bool> found = false;
  parallel_for(x.numel(), detail::kPointwiseGrain, [&](int64_t a, int64_t b) {
    if (std::memchr(p + a, 1, size_t(b - a))) found.store(true, std::memory_order_relaxed);
  });
  *y.ptr<bool>() = found;
}

TANDEM_KERNEL(eq_forward, cpu, compare_cpu<std::equal_to<>>);
TANDEM_KERNEL(ne_forward, cpu, compare_cpu<std::not_equal_to<>>);
TANDEM_KERNEL(lt_forward, cpu, compare_cpu<std::less<>>);
TANDEM_KERNEL(le_forward, cpu, compare_cpu<std::less_equal<>>);
TANDEM_KERNEL(any_forward, cpu, any_cpu);

}  // namespace
}  // namespace tandem
