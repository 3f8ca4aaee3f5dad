#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/elementwise_loss_formulas.h>
#include <tandem/ops/fold.h>
#include <tandem/ops/vector_math.h>
#include <tandem/ops/widen.h>

namespace tandem {
namespace {

constexpr OpId kMseLoss{"mse_loss"}, kL1Loss{"l1_loss"}, kSmoothL1Loss{"smooth_l1_loss"},
    kBinaryCrossEntropy{"binary_cross_entropy_with_logits"};

void check_operands(const char* op, const Tensor& x, const Tensor& y) {
  check<DtypeError>(is_floating(x.dtype()) && x.dtype() == y.dtype(), "[", op,
                    "] takes two tensors of one floating dtype, got ", x.dtype(), " and ", y.dtype());
  check<ShapeError>(x.shape() == y.shape(), "[", op, "] takes two tensors of one shape, got ", x.shape(), " and ",
                    y.shape());
  require_same_device(op, {&x, &y});
}

// Sums are taken in row-major order whatever the layout; without one, x's layout is kept.
Layout working_layout(const Tensor& x, Reduction r) { return r == Reduction::none ? x.layout() : Layout::row_major; }
Tensor empty_loss(const Tensor& x, Reduction r) {
  if (r != Reduction::none) return empty({}, {.dtype = x.dtype(), .device = x.device()});
  return empty(x.shape(), {.dtype = x.dtype(), .device = x.device(), .layout = x.layout()});
}

// A loss that is even in x - y, so that one kernel gives both gradients.
template <class Forward, class Backward, class... Param>
Tensor even_loss(const char* op, const Forward& forward, const Backward& backward, const Tensor& x, const Tensor& y,
                 Reduction r, Param... param) {
  check_operands(op, x, y);
  const Layout l = working_layout(x, r);
  Tensor a = as_layout(x, l), b = as_layout(y, l), loss = empty_loss(x, r);
  forward(x.device(), loss, a, b, r, param...);
  return record(op, std::move(loss), {x, y},
                [op, &backward, l, r, param..., a = Saved(op, a), b = Saved(op, b)](Tensor& gy, Targets t) {
                  Tensor g = as_layout(gy, l);
                  auto gradient = [&](Target& target, const Tensor& own, const Tensor& other) {
                    if (!target) return;
                    in_layout(target.out(), l,
                              [&](Out out) { backward(g.device(), std::move(out), g, own, other, r, param...); });
                  };
                  gradient(t[0], a(), b());
                  gradient(t[1], b(), a());
                });
}

}  // namespace

Tensor mse_loss(const Tensor& x_in, const Tensor& y_in, Reduction r) {
  auto [x, y] = enter(kMseLoss, x_in, y_in);
  return even_loss("mse_loss", mse_loss_forward, mse_loss_backward_data, x, y, r);
}

Tensor l1_loss(const Tensor& x_in, const Tensor& y_in, Reduction r) {
  auto [x, y] = enter(kL1Loss, x_in, y_in);
  return even_loss("l1_loss", l1_loss_forward, l1_loss_backward_data, x, y, r);
}

Tensor smooth_l1_loss(const Tensor& x_in, const Tensor& y_in, SmoothL1Options o) {
  auto [x, y] = enter(kSmoothL1Loss, x_in, y_in);
  check(o.beta >= 0, "[smooth_l1_loss] beta is at least 0, got ", o.beta);
  if (o.beta == 0) return even_loss("smooth_l1_loss", l1_loss_forward, l1_loss_backward_data, x, y, o.reduction);
  return even_loss("smooth_l1_loss", smooth_l1_loss_forward, smooth_l1_loss_backward_data, x, y, o.reduction, o.beta);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x_in, const Tensor& y_in, Reduction r) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  auto [x, y] = enter(kBinaryCrossEntropy, x_in, y_in);
  check_operands(op, x, y);
  const Layout l = working_layout(x, r);
  Tensor a = as_layout(x, l), b = as_layout(y, l), loss = empty_loss(x, r);
  binary_cross_entropy_with_logits_forward(x.device(), loss, a, b, r);
  return record(op, std::move(loss), {x, y}, [l, r, a = Saved(op, a), b = Saved(op, b)](Tensor& gy, Targets t) {
    Tensor g = as_layout(gy, l);
    if (t[0])
      in_layout(t[0].out(), l, [&](Out out) {
        binary_cross_entropy_with_logits_backward_data(g.device(), std::move(out), g, a(), b(), r);
      });
    if (t[1])
      in_layout(t[1].out(), l, [&](Out out) {
        binary_cross_entropy_with_logits_backward_target(g.device(), std::move(out), g, a(), r);
      });
  });
}

namespace {

constexpr int64_t kGrain = 1 << 14;

// f(i) is element i's loss.
template <class T, class F>
void reduce_loss(Tensor& loss, int64_t n, Reduction r, F f) {
  T* out = loss.ptr<T>();
  if (r == Reduction::none) {
    parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
      for (int64_t i = a; i < b; ++i) out[i] = f(i);
    });
    return;
  }
  const detail::Parts parts(n, kGrain / 4);
  double partial[detail::kMaxParts];
  parallel_for(parts.count, 4, [&](int64_t a, int64_t b) {
    for (int64_t k = a; k < b; ++k) {
      const int64_t first = parts.begin(k);
      partial[k] =
          detail::fold_run<detail::Sum<double>>(parts.size(k), [&](int64_t i) { return double(f(first + i)); });
    }
  });
  double sum = 0;
  for (int64_t k = 0; k < parts.count; ++k) sum += partial[k];
  *out = T(r == Reduction::mean ? sum / double(n) : sum);
}

// gx = f(i) * what element i's loss counts for.
template <class T, class F>
void scale_gradient(const Out& gx, const Tensor& gy, Reduction r, F f) {
  const int64_t n = gx.t.numel();
  T* out = gx.t.ptr<T>();
  const T* g = gy.ptr<T>();
  const bool add = gx.beta != 0;
  auto run = [&](auto upstream) {
    parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
      if (add) {
#pragma omp simd
        for (int64_t i = a; i < b; ++i) out[i] += f(i) * upstream(i);
      } else {
#pragma omp simd
        for (int64_t i = a; i < b; ++i) out[i] = f(i) * upstream(i);
      }
    });
  };
  if (r == Reduction::none) {
    run([g](int64_t i) { return g[i]; });
  } else if (n > 0) {
    const T each = r == Reduction::mean ? *g / T(n) : *g;
    run([each](int64_t) { return each; });
  }
}

// p: what the loss is made with.
template <template <class, class> class Loss, class... P>
void forward(Tensor& loss, const Tensor& x, const Tensor& y, Reduction r, P... p) {
  dispatch_real(context().op, x.dtype(), [&](auto t) {
    using T = decltype(t);
    reduce_loss<T>(loss, x.numel(), r,
                   [of = Loss<T, detail::VectorMath>(p...), a = x.ptr<T>(), b = y.ptr<T>()](int64_t i) {
                     return of(T(a[i]), T(b[i]));
                   });
  });
}

template <template <class, class> class Loss, class... P>
void backward(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y, Reduction r, P... p) {
  dispatch_real(context().op, x.dtype(), [&](auto t) {
    using T = decltype(t);
    scale_gradient<T>(gx, gy, r, [of = Loss<T, detail::VectorMath>(p...), a = x.ptr<T>(), b = y.ptr<T>()](int64_t i) {
      return of.gradient(T(a[i]), T(b[i]));
    });
  });
}

void backward_target(Out g_target, const Tensor& gy, const Tensor& x, Reduction r) {
  dispatch_real(context().op, x.dtype(), [&](auto t) {
    using T = decltype(t);
    scale_gradient<T>(g_target, gy, r, [a = x.ptr<T>()](int64_t i) {
      return detail::BinaryCrossEntropy<T, detail::VectorMath>::gradient_by_target(T(a[i]));
    });
  });
}

TANDEM_CPU_KERNEL(mse_loss_forward, forward<detail::MseLoss>);
TANDEM_CPU_KERNEL(mse_loss_backward_data, backward<detail::MseLoss>);
TANDEM_CPU_KERNEL(l1_loss_forward, forward<detail::L1Loss>);
TANDEM_CPU_KERNEL(l1_loss_backward_data, backward<detail::L1Loss>);
TANDEM_CPU_KERNEL(smooth_l1_loss_forward, forward<detail::SmoothL1Loss, double>);
TANDEM_CPU_KERNEL(smooth_l1_loss_backward_data, backward<detail::SmoothL1Loss, double>);
TANDEM_CPU_KERNEL(binary_cross_entropy_with_logits_forward, forward<detail::BinaryCrossEntropy>);
TANDEM_CPU_KERNEL(binary_cross_entropy_with_logits_backward_data, backward<detail::BinaryCrossEntropy>);
TANDEM_CPU_KERNEL(binary_cross_entropy_with_logits_backward_target, backward_target);

}  // namespace
}  // namespace tandem
