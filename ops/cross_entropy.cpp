#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/class_targets.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/fold.h>
#include <tandem/ops/vector_exp.h>
#include <tandem/ops/widen.h>

#include <cmath>

namespace tandem {

constexpr OpId kCrossEntropy{"cross_entropy"};

Tensor cross_entropy(const Tensor& x_in, const Tensor& target_in, const CrossEntropyOptions& o) {
  auto [x, target, weight_in] = enter(kCrossEntropy, x_in, target_in, o.weight);
  detail::check_class_input("cross_entropy", x, weight_in);
  check(o.label_smoothing >= 0 && o.label_smoothing <= 1, "[cross_entropy] label_smoothing is between 0 and 1, got ",
        o.label_smoothing);
  const bool indices = !is_floating(target.dtype());
  if (indices)
    detail::check_class_indices("cross_entropy", x, target);
  else
    check<ShapeError>(target.shape() == x.shape() && target.dtype() == x.dtype(), "[cross_entropy] logits are ",
                      x.dtype(), " ", x.shape(), ", target probabilities ", target.dtype(), " ", target.shape());
  require_same_device("cross_entropy", {&x, &target, &weight_in});

  const CrossEntropyRule rule{o.reduction, o.label_smoothing, o.ignore_index};
  Tensor rows = detail::channel_rows(x);
  Tensor goal = indices ? as_layout(target, Layout::row_major) : detail::channel_rows(target);
  Tensor weight = detail::dense_or_none(weight_in);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  Tensor loss = empty(o.reduction == Reduction::none ? detail::without_channels(x.shape()) : Dims{}, like), dx;
  if (wants_grad({x})) dx = empty(rows.shape(), like);
  const auto& forward = indices ? cross_entropy_forward : cross_entropy_of_probabilities_forward;
  forward(x.device(), loss, dx, rows, goal, weight, rule);

  if (!wants_grad({target}))
    return record("cross_entropy", std::move(loss), {x}, [dx = std::move(dx)](Tensor& gy, Targets t) {
      if (!t[0]) return;
      Tensor g = as_layout(gy, Layout::row_major);
      detail::in_channel_rows(t[0].out(),
                              [&](Out gx) { cross_entropy_backward_data(g.device(), std::move(gx), g, dx); });
    });
  return record("cross_entropy", std::move(loss), {x, target},
                [dx = std::move(dx), rows = Saved("cross_entropy", rows), weight = Saved("cross_entropy", weight),
                 rule](Tensor& gy, Targets t) {
                  Tensor g = as_layout(gy, Layout::row_major);
                  if (t[0])
                    detail::in_channel_rows(
                        t[0].out(), [&](Out gx) { cross_entropy_backward_data(g.device(), std::move(gx), g, dx); });
                  if (t[1])
                    detail::in_channel_rows(t[1].out(), [&](Out g_target) {
                      cross_entropy_of_probabilities_backward_target(g.device(), std::move(g_target), g, rows(),
                                                                     weight(), rule);
                    });
                });
}

namespace {

constexpr int64_t kGrain = 1 << 13;  // logits

// One row's softmax: log of the sum of exponentials, relative to the largest logit.
template <class T>
struct RowSoftmax {
  T top;
  double sum;      // of e^(x - top)
  double log_sum;  // so that -log p(j) = log_sum - (x[j] - top)

  // Leaves e^(x - top) in e, where there is one.
  RowSoftmax(const T* x, int64_t c, T* e) {
    using detail::vector_exp;
    const T highest = detail::fold_run<detail::Max<T>>(c, [x](int64_t j) { return x[j]; });
    if (e) {
#pragma omp simd
      for (int64_t j = 0; j < c; ++j) e[j] = vector_exp(x[j] - highest);
      sum = detail::fold_run<detail::Sum<double>>(c, [e](int64_t j) { return double(e[j]); });
    } else {
      sum = detail::fold_run<detail::Sum<double>>(
          c, [x, highest](int64_t j) { return double(vector_exp(x[j] - highest)); });
    }
    top = highest;
    log_sum = std::log(sum);
  }
  double loss_of(T x) const { return log_sum - double(x - top); }
};

// Calls row(i) for each of m rows of c classes, in parallel, and reduces the losses that it returns in a fixed order.
template <class T, class F>
void over_rows(Tensor& loss, int64_t m, int64_t c, Reduction reduction, double divisor, F row) {
  T* out = loss.ptr<T>();
  const int64_t least = std::max<int64_t>(1, kGrain / std::max<int64_t>(c, 1));
  if (reduction == Reduction::none) {
    parallel_for(m, least, [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) out[i] = T(row(i));
    });
    return;
  }
  const detail::Parts parts(m, least);
  double partial[detail::kMaxParts];
  parallel_for(parts.count, 1, [&](int64_t a, int64_t b) {
    for (int64_t k = a; k < b; ++k) {
      double sum = 0;
      for (int64_t i = parts.begin(k); i < parts.end(k); ++i) sum += row(i);
      partial[k] = sum;
    }
  });
  double sum = 0;
  for (int64_t k = 0; k < parts.count; ++k) sum += partial[k];
  *out = T(sum / divisor);
}

template <class T>
void of_indices(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target, const Tensor& weight,
                const CrossEntropyRule& rule) {
  const int64_t m = x.size(0), c = x.size(1);
  const T *logits = x.ptr<T>(), *w = weight ? weight.ptr<T>() : nullptr;
  T* gradient = dx ? dx.ptr<T>() : nullptr;
  const auto* classes = target.ptr<int64_t>();
  const double total = detail::total_weight("cross_entropy", classes, m, c, w, rule.ignore_index);
  const double divisor = rule.reduction == Reduction::mean ? total : 1, scale = 1 / divisor;
  const double share = rule.label_smoothing / double(c);  // of each class
  double all = double(c);
  if (w) all = detail::fold_run<detail::Sum<double>>(c, [w](int64_t j) { return double(w[j]); });

  // The loss of a row is sum_j q_j * -log p_j, with q_j = share * w_j, and (1 - label_smoothing) * w_t more at the
  // target t; its gradient is (sum of q) * p_j - q_j.
  over_rows<T>(loss, m, c, rule.reduction, divisor, [&](int64_t i) {
    const T* r = logits + i * c;
    T* d = gradient ? gradient + i * c : nullptr;
    const int64_t k = classes[i];
    if (k == rule.ignore_index) {
      if (d) std::fill_n(d, c, T(0));
      return 0.0;
    }
    const RowSoftmax<T> s(r, c, d);
    const double hit = (1 - rule.label_smoothing) * (w ? double(w[k]) : 1);
    double row_loss = hit * s.loss_of(r[k]);
    if (share > 0)
      row_loss += share * detail::fold_run<detail::Sum<double>>(
                              c, [&](int64_t j) { return (w ? double(w[j]) : 1) * s.loss_of(r[j]); });
    if (d) {
      const T of_exp = T(scale * (hit + share * all) / s.sum), of_class = T(scale * share);
      if (share > 0) {
        for (int64_t j = 0; j < c; ++j) d[j] = d[j] * of_exp - (w ? of_class * w[j] : of_class);
      } else {
#pragma omp simd
        for (int64_t j = 0; j < c; ++j) d[j] *= of_exp;
      }
      d[k] -= T(scale * hit);
    }
    return row_loss;
  });
}

template <class T>
void of_probabilities(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target, const Tensor& weight,
                      const CrossEntropyRule& rule) {
  const int64_t m = x.size(0), c = x.size(1);
  const T *logits = x.ptr<T>(), *w = weight ? weight.ptr<T>() : nullptr;
  T* gradient = dx ? dx.ptr<T>() : nullptr;
  const T* probabilities = target.ptr<T>();
  const double divisor = rule.reduction == Reduction::mean ? double(m) : 1, scale = 1 / divisor;
  const double kept = 1 - rule.label_smoothing, share = rule.label_smoothing / double(c);
  over_rows<T>(loss, m, c, rule.reduction, divisor, [&](int64_t i) {
    const T *r = logits + i * c, *p = probabilities + i * c;
    T* d = gradient ? gradient + i * c : nullptr;
    const RowSoftmax<T> s(r, c, d);
    auto q = [&](int64_t j) { return (kept * double(p[j]) + share) * (w ? double(w[j]) : 1); };
    const double row_loss = detail::fold_run<detail::Sum<double>>(c, [&](int64_t j) { return q(j) * s.loss_of(r[j]); });
    if (d) {
      const double of_exp = detail::fold_run<detail::Sum<double>>(c, q) / s.sum;
      for (int64_t j = 0; j < c; ++j) d[j] = T(scale * (double(d[j]) * of_exp - q(j)));
    }
    return row_loss;
  });
}

void cross_entropy_forward_cpu(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target, const Tensor& weight,
                               const CrossEntropyRule& rule) {
  dispatch_real("cross_entropy", x.dtype(),
                [&](auto t) { of_indices<decltype(t)>(loss, dx, x, target, weight, rule); });
}

void cross_entropy_of_probabilities_forward_cpu(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target,
                                                const Tensor& weight, const CrossEntropyRule& rule) {
  dispatch_real("cross_entropy", x.dtype(),
                [&](auto t) { of_probabilities<decltype(t)>(loss, dx, x, target, weight, rule); });
}

void cross_entropy_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& dx) {
  dispatch_real("cross_entropy", dx.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t m = dx.size(0), c = dx.size(1);
    const T *g = gy.ptr<T>(), *d = dx.ptr<T>();
    T* out = gx.t.ptr<T>();
    const bool add = gx.beta != 0, each = gy.numel() != 1;
    parallel_for(m, std::max<int64_t>(1, kGrain / std::max<int64_t>(c, 1)), [=](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) {
        const T upstream = g[each ? i : 0];
        const T* from = d + i * c;
        T* to = out + i * c;
        if (add) {
#pragma omp simd
          for (int64_t j = 0; j < c; ++j) to[j] += upstream * from[j];
        } else {
#pragma omp simd
          for (int64_t j = 0; j < c; ++j) to[j] = upstream * from[j];
        }
      }
    });
  });
}

void cross_entropy_of_probabilities_backward_target_cpu(Out g_target, const Tensor& gy, const Tensor& x,
                                                        const Tensor& weight, const CrossEntropyRule& rule) {
  dispatch_real("cross_entropy", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t m = x.size(0), c = x.size(1);
    const T *logits = x.ptr<T>(), *g = gy.ptr<T>(), *w = weight ? weight.ptr<T>() : nullptr;
    T* out = g_target.t.ptr<T>();
    const bool add = g_target.beta != 0, each = rule.reduction == Reduction::none;
    const double scale = (1 - rule.label_smoothing) * (rule.reduction == Reduction::mean ? 1 / double(m) : 1);
    parallel_for(m, std::max<int64_t>(1, kGrain / std::max<int64_t>(c, 1)), [=](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) {
        const T* r = logits + i * c;
        T* to = out + i * c;
        const RowSoftmax<T> s(r, c, nullptr);
        const double upstream = scale * double(g[each ? i : 0]);
        for (int64_t j = 0; j < c; ++j) {
          const T v = T(upstream * (w ? double(w[j]) : 1) * s.loss_of(r[j]));
          to[j] = add ? to[j] + v : v;
        }
      }
    });
  });
}

TANDEM_CPU_KERNEL(cross_entropy_forward, cross_entropy_forward_cpu);
TANDEM_CPU_KERNEL(cross_entropy_of_probabilities_forward, cross_entropy_of_probabilities_forward_cpu);
TANDEM_CPU_KERNEL(cross_entropy_backward_data, cross_entropy_backward_data_cpu);
TANDEM_CPU_KERNEL(cross_entropy_of_probabilities_backward_target, cross_entropy_of_probabilities_backward_target_cpu);

}  // namespace
}  // namespace tandem
