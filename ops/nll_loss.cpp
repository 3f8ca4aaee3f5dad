#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/class_targets.h>
#include <tandem/ops/fold.h>
#include <tandem/ops/nll_loss.h>
#include <tandem/ops/widen.h>

namespace tandem {

constexpr OpId kNllLoss{"nll_loss"};

Tensor nll_loss(const Tensor& x_in, const Tensor& target_in, const NllLossOptions& o) {
  auto [x, target, weight_in] = enter(kNllLoss, x_in, target_in, o.weight);
  detail::check_class_input("nll_loss", x, weight_in);
  detail::check_class_indices("nll_loss", x, target);
  require_same_device("nll_loss", {&x, &target, &weight_in});

  Tensor classes = as_layout(target, Layout::row_major), weight = detail::dense_or_none(weight_in);
  const Dims shape = o.reduction == Reduction::none ? target.shape() : Dims{};
  Tensor loss = empty(shape, {.dtype = x.dtype(), .device = x.device()});
  Tensor total = empty({}, {.dtype = x.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32, .device = x.device()});
  nll_loss_forward(x.device(), loss, total, detail::channel_rows(x), classes, weight, o.reduction, o.ignore_index);
  return record("nll_loss", std::move(loss), {x},
                [total, classes = Saved("nll_loss", classes), weight = Saved("nll_loss", weight), r = o.reduction,
                 ignore = o.ignore_index](Tensor& gy, Targets t) {
                  if (!t[0]) return;
                  Tensor g = as_layout(gy, Layout::row_major);
                  detail::in_channel_rows(t[0].out(), [&](Out gx) {
                    nll_loss_backward_data(g.device(), std::move(gx), g, total, classes(), weight(), r, ignore);
                  });
                });
}

namespace {

constexpr int64_t kGrain = 1 << 14;

void nll_loss_forward_cpu(Tensor& loss, Tensor& total, const Tensor& x, const Tensor& target, const Tensor& weight,
                          Reduction r, int64_t ignore_index) {
  dispatch_real("nll_loss", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t m = x.shape()[0], c = x.shape()[1];
    const T *p = x.ptr<T>(), *w = weight ? weight.ptr<T>() : nullptr;
    const auto* classes = target.ptr<int64_t>();
    T* out = loss.ptr<T>();
    const double count = detail::total_weight("nll_loss", classes, m, c, w, ignore_index);
    *total.ptr<T>() = T(count);
    auto row_loss = [=](int64_t i) {
      const int64_t k = classes[i];
      return k == ignore_index ? T(0) : -p[i * c + k] * (w ? w[k] : T(1));
    };
    if (r == Reduction::none) {
      for (int64_t i = 0; i < m; ++i) out[i] = row_loss(i);
    } else {
      const double sum = detail::fold_run<detail::Sum<double>>(m, [=](int64_t i) { return double(row_loss(i)); });
      *out = T(r == Reduction::mean ? sum / count : sum);
    }
  });
}

void nll_loss_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& total, const Tensor& target,
                                const Tensor& weight, Reduction r, int64_t ignore_index) {
  dispatch_real("nll_loss", gx.t.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t m = gx.t.shape()[0], c = gx.t.shape()[1];
    const T *g = gy.ptr<T>(), *w = weight ? weight.ptr<T>() : nullptr;
    const auto* classes = target.ptr<int64_t>();
    T* out = gx.t.ptr<T>();
    const bool add = gx.beta != 0, each = r == Reduction::none;
    const T divisor = r == Reduction::mean ? *total.ptr<T>() : T(1);
    parallel_for(m, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, c)), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = classes[i];
        if (!add) std::fill_n(out + i * c, c, T(0));
        if (k != ignore_index) out[i * c + k] -= g[each ? i : 0] * (w ? w[k] : T(1)) / divisor;
      }
    });
  });
}

TANDEM_CPU_KERNEL(nll_loss_forward, nll_loss_forward_cpu);
TANDEM_CPU_KERNEL(nll_loss_backward_data, nll_loss_backward_data_cpu);

}  // namespace
}  // namespace tandem
