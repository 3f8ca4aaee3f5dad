#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/channel_rows.h>
#include <tandem/ops/layer_norm.h>
#include <tandem/ops/row_sums.h>
#include <tandem/ops/widen.h>

#include <cmath>

namespace tandem {
namespace {

constexpr OpId kLayerNorm{"layer_norm"};

void check_operands(const Tensor& x, const Dims& normalized_shape, const Tensor& weight, const Tensor& bias) {
  check<DtypeError>(is_floating(x.dtype()), "[layer_norm] takes a floating input, got ", x.dtype());
  const int skip = x.dim() - normalized_shape.size();
  bool fits = skip >= 0 && !normalized_shape.empty();
  for (int d = 0; fits && d < normalized_shape.size(); ++d) fits = x.shape()[skip + d] == normalized_shape[d];
  check<ShapeError>(fits, "[layer_norm] input ", x.shape(), " does not end in ", normalized_shape);
  auto per_element = [&](const char* name, const Tensor& t) {
    if (!t) return;
    check<ShapeError>(t.shape() == normalized_shape, "[layer_norm] normalises over ", normalized_shape, ", ", name,
                      " has shape ", t.shape());
    check<DtypeError>(t.dtype() == x.dtype() || (is_half(x.dtype()) && t.dtype() == Dtype::f32),
                      "[layer_norm] input is ", x.dtype(), ", ", name, " ", t.dtype());
  };
  per_element("weight", weight);
  per_element("bias", bias);
  require_same_device("layer_norm", {&x, &weight, &bias});
}

Tensor as_rows(const Tensor& row_major, int64_t n) {
  const int64_t m = n ? row_major.numel() / n : 0;
  return row_major.alias({m, n}, {n, 1}, row_major.impl()->offset);
}

}  // namespace

Tensor layer_norm(const Tensor& x_in, const Dims& normalized_shape, const Tensor& weight_in, const Tensor& bias_in,
                  double eps) {
  auto [x, weight, bias] = enter(kLayerNorm, x_in, weight_in, bias_in);
  check_operands(x, normalized_shape, weight, bias);
  const int64_t n = normalized_shape.numel();
  Tensor rows = as_rows(as_layout(x, Layout::row_major), n);
  Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}), y_rows = as_rows(y, n);
  const TensorOptions statistic{.dtype = x.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32, .device = x.device()};
  Tensor mean = empty({rows.shape()[0]}, statistic), invstd = empty({rows.shape()[0]}, statistic);
  Tensor w = detail::dense_or_none(weight), b = detail::dense_or_none(bias);
  layer_norm_forward(x.device(), y_rows, mean, invstd, rows, w, b, eps);

  return record(
      "layer_norm", std::move(y), {x, weight, bias},
      [n, rows = Saved("layer_norm", rows), w = Saved("layer_norm", w), mean, invstd](Tensor& gy, Targets t) {
        const Device d = gy.device();
        gy = as_layout(gy, Layout::row_major);
        if (t[1])
          in_layout(t[1].out(), Layout::row_major, [&](Out to) {
            layer_norm_backward_weight(d, std::move(to), as_rows(gy, n), rows(), mean, invstd);
          });
        if (t[2])
          in_layout(t[2].out(), Layout::row_major,
                    [&](Out to) { layer_norm_backward_bias(d, std::move(to), as_rows(gy, n)); });
        if (!t[0]) return;
        in_layout(t[0].out_over(gy), Layout::row_major, [&](Out to) {
          layer_norm_backward_data(d, Out{as_rows(to.t, n), to.beta}, as_rows(gy, n), rows(), mean, invstd, w());
        });
      });
}

namespace {

using detail::fold_run, detail::Sum;

constexpr int64_t kGrain = 1 << 14;

template <class F>
void over_rows(const Tensor& rows, F f) {
  const int64_t n = rows.shape()[1];
  parallel_for(rows.shape()[0], std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n)), [&](int64_t a, int64_t b) {
    for (int64_t r = a; r < b; ++r) f(r);
  });
}

void layer_norm_forward_cpu(Tensor& y, Tensor& mean, Tensor& invstd, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, double eps) {
  dispatch_real("layer_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t n = x.shape()[1];
    const T *w = weight ? weight.ptr<T>() : nullptr, *b = bias ? bias.ptr<T>() : nullptr;
    over_rows(x, [&, all_x = x.ptr<T>(), all_y = y.ptr<T>(), mu = mean.ptr<T>(), is = invstd.ptr<T>()](int64_t r) {
      const T* p = all_x + r * n;
      T* q = all_y + r * n;
      const double average = fold_run<Sum<double>>(n, [p](int64_t i) { return double(p[i]); }) / double(n);
      const double squares = fold_run<Sum<double>>(n, [p, average](int64_t i) {
        const double d = double(p[i]) - average;
        return d * d;
      });
      mu[r] = T(average);
      is[r] = T(1 / std::sqrt(squares / double(n) + eps));
      const T center = mu[r], scale = is[r];
      auto write = [&](auto weight_of, auto bias_of) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) q[i] = (p[i] - center) * scale * weight_of(i) + bias_of(i);
      };
      auto one = [](int64_t) { return T(1); };
      auto zero = [](int64_t) { return T(0); };
      auto weight_at = [w](int64_t i) { return w[i]; };
      auto bias_at = [b](int64_t i) { return b[i]; };
      if (w && b)
        write(weight_at, bias_at);
      else if (w)
        write(weight_at, zero);
      else if (b)
        write(one, bias_at);
      else
        write(one, zero);
    });
  });
}

void layer_norm_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                  const Tensor& weight) {
  dispatch_real("layer_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t n = x.shape()[1];
    const T* w = weight ? weight.ptr<T>() : nullptr;
    const T *all_x = x.ptr<T>(), *all_g = gy.ptr<T>(), *mu = mean.ptr<T>(), *is = invstd.ptr<T>();
    T* all_q = gx.t.ptr<T>();
    const bool add = gx.beta != 0;
    over_rows(x, [=](int64_t r) {
      const T *p = all_x + r * n, *g = all_g + r * n;
      T* q = all_q + r * n;
      const T center = mu[r], scale = is[r];
      auto run = [&](auto upstream) {
        // The mean and the variance take their share back: of the upstream gradient, its average and its part along
        // x - mean.
        const T average = T(fold_run<Sum<double>>(n, [&](int64_t i) { return double(upstream(i)); }) / double(n));
        const double along =
            fold_run<Sum<double>>(n, [&](int64_t i) { return double(upstream(i)) * double(p[i] - center); });
        const T slope = T(along * double(scale) * double(scale) / double(n));
        if (add) {
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) q[i] += ((upstream(i) - average) - (p[i] - center) * slope) * scale;
        } else {
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) q[i] = ((upstream(i) - average) - (p[i] - center) * slope) * scale;
        }
      };
      if (w)
        run([=](int64_t i) { return g[i] * w[i]; });
      else
        run([=](int64_t i) { return g[i]; });
    });
  });
}

template <class T>
void write_sums(const Out& o, const Tensor& sums) {
  T* to = o.t.ptr<T>();
  const auto* s = sums.ptr<double>();
  for (int64_t i = 0; i < sums.numel(); ++i) to[i] = T(o.beta != 0 ? double(to[i]) + s[i] : s[i]);
}

void layer_norm_backward_weight_cpu(Out g_weight, const Tensor& gy, const Tensor& x, const Tensor& mean,
                                    const Tensor& invstd) {
  dispatch_real("layer_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t n = x.shape()[1];
    const T *p = x.ptr<T>(), *g = gy.ptr<T>(), *mu = mean.ptr<T>(), *is = invstd.ptr<T>();
    write_sums<T>(g_weight, detail::row_sums(x, n, [=](int64_t r, double* s) {
                    const T center = mu[r];
                    const auto scale = double(is[r]);
#pragma omp simd
                    for (int64_t i = 0; i < n; ++i)
                      s[i] += double(g[r * n + i]) * double(p[r * n + i] - center) * scale;
                  }));
  });
}

void layer_norm_backward_bias_cpu(Out g_bias, const Tensor& gy) {
  dispatch_real("layer_norm", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t n = gy.shape()[1];
    const T* g = gy.ptr<T>();
    write_sums<T>(g_bias, detail::row_sums(gy, n, [=](int64_t r, double* s) {
#pragma omp simd
                    for (int64_t i = 0; i < n; ++i) s[i] += double(g[r * n + i]);
                  }));
  });
}

TANDEM_CPU_KERNEL(layer_norm_forward, layer_norm_forward_cpu);
TANDEM_CPU_KERNEL(layer_norm_backward_data, layer_norm_backward_data_cpu);
TANDEM_CPU_KERNEL(layer_norm_backward_weight, layer_norm_backward_weight_cpu);
TANDEM_CPU_KERNEL(layer_norm_backward_bias, layer_norm_backward_bias_cpu);

}  // namespace
}  // namespace tandem
