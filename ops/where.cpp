#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/broadcast.h>
#include <tandem/ops/where.h>
#include <tandem/ops/widen.h>

#include <type_traits>

namespace tandem {
namespace {

constexpr OpId kWhere{"where"};

// Dense, or a single element with stride 0.
Tensor operand(const Tensor& x, Dtype dtype, const Dims& shape, Layout layout) {
  Tensor y = stretched(x, dtype, shape, layout);
  return x.numel() == 1 ? y : as_layout(y, layout);
}

}  // namespace

Tensor where(const Tensor& condition_in, const Tensor& a_in, const Tensor& b_in) {
  auto [condition, a, b] = enter(kWhere, condition_in, a_in, b_in);
  require_same_device("where", {&condition, &a, &b});
  check<DtypeError>(condition.dtype() == Dtype::boolean, "[where] the condition is bool, got ", condition.dtype());
  const Dims shape = broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  Layout layout = Layout::row_major;
  for (const Tensor* t : {&condition, &a, &b})
    if (t->shape() == shape && t->layout() == Layout::channels_last) layout = Layout::channels_last;
  const Dtype dtype = result_dtype(a, b);
  Tensor c = operand(condition, Dtype::boolean, shape, layout);
  Tensor y = empty(shape, {.dtype = dtype, .device = a.device(), .layout = layout});
  where_forward(y.device(), y, c, operand(a, dtype, shape, layout), operand(b, dtype, shape, layout));
  return record("where", y, {a, b}, [c = Saved("where", c), layout](Tensor& gy, Targets t) {
    Tensor g = as_layout(std::exchange(gy, {}), layout);
    auto give = [&](Target& to, bool side, bool last) {
      give_stretched(to, g, last, [&](Out gx, const Tensor& g) { where_backward_data(g.device(), gx, g, c(), side); });
    };
    if (t[0]) give(t[0], true, !t[1]);
    if (t[1]) give(t[1], false, true);
  });
}

Tensor where(const Tensor& condition, const Tensor& a, Scalar b) {
  return where(condition, a, full({}, b.value, {.dtype = result_dtype(a.dtype(), b), .device = a.device()}));
}

Tensor where(const Tensor& condition, Scalar a, const Tensor& b) {
  return where(condition, full({}, a.value, {.dtype = result_dtype(b.dtype(), a), .device = b.device()}), b);
}

namespace {

constexpr int64_t kGrain = 1 << 14;

// Calls f with the step from element to element, a constant: 1, or 0 for a single element.
template <class F>
void with_step(const Tensor& x, F&& f) {
  if (x.is_dense_in_any_layout())
    f(std::integral_constant<int64_t, 1>{});
  else
    f(std::integral_constant<int64_t, 0>{});
}

// Values are only moved: one loop for each size of element.
template <class T>
void choose(Tensor& y, const Tensor& condition, const Tensor& a, const Tensor& b) {
  const auto* c = condition.ptr<bool>();
  const T *p = a.ptr<T>(), *r = b.ptr<T>();
  T* q = y.ptr<T>();
  with_step(condition, [&](auto cs) {
    with_step(a, [&](auto as) {
      with_step(b, [&](auto bs) {
        parallel_for(y.numel(), kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
          for (int64_t i = begin; i < end; ++i) {
            const T x = p[i * as], z = r[i * bs];  // loaded first: g++ does not vectorise loads inside the choice
            q[i] = c[i * cs] ? x : z;
          }
        });
      });
    });
  });
}

void where_forward_cpu(Tensor& y, const Tensor& condition, const Tensor& a, const Tensor& b) {
  switch (size_of(y.dtype())) {
    case 8: return choose<uint64_t>(y, condition, a, b);
    case 4: return choose<uint32_t>(y, condition, a, b);
    case 2: return choose<uint16_t>(y, condition, a, b);
    default: return choose<uint8_t>(y, condition, a, b);
  }
}

void where_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& condition, bool side) {
  const auto* c = condition.ptr<bool>();
  dispatch_real("where", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* g = gy.ptr<T>();
    T* q = gx.t.ptr<T>();
    const bool add = gx.beta != 0;
    with_step(condition, [&](auto cs) {
      parallel_for(gy.numel(), kGrain, [=](int64_t begin, int64_t end) {
        if (add) {
#pragma omp simd
          for (int64_t i = begin; i < end; ++i) {
            const T gi = g[i];
            q[i] += c[i * cs] == side ? gi : T(0);
          }
        } else {
#pragma omp simd
          for (int64_t i = begin; i < end; ++i) {
            const T gi = g[i];
            q[i] = c[i * cs] == side ? gi : T(0);
          }
        }
      });
    });
  });
}

TANDEM_KERNEL(where_forward, cpu, where_forward_cpu);
TANDEM_CPU_KERNEL(where_backward_data, where_backward_data_cpu);

}  // namespace
}  // namespace tandem
