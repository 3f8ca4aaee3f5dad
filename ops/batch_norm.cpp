#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/batch_norm.h>
#include <tandem/ops/channel_rows.h>
#include <tandem/ops/row_sums.h>
#include <tandem/ops/widen.h>

#include <cmath>

namespace tandem {
namespace {

constexpr OpId kBatchNorm{"batch_norm"};

void check_operands(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                    const Tensor& running_var, bool training) {
  check<DtypeError>(is_floating(x.dtype()), "[batch_norm] takes a floating input, got ", x.dtype());
  check<ShapeError>(x.dim() >= 2, "[batch_norm] takes an input [n,c,...], got ", x.shape());
  auto per_channel = [&](const char* name, const Tensor& t) {
    if (!t) return;
    check<ShapeError>(t.dim() == 1 && t.shape()[0] == x.shape()[1], "[batch_norm] input has ", x.shape()[1],
                      " channels, ", name, " has shape ", t.shape());
    check<DtypeError>(t.dtype() == x.dtype() || (is_half(x.dtype()) && t.dtype() == Dtype::f32),
                      "[batch_norm] input is ", x.dtype(), ", ", name, " ", t.dtype());
  };
  per_channel("weight", weight);
  per_channel("bias", bias);
  per_channel("running_mean", running_mean);
  per_channel("running_var", running_var);
  require_same_device("batch_norm", {&x, &weight, &bias, &running_mean, &running_var});
  check(bool(running_mean) == bool(running_var), "[batch_norm] running_mean and running_var come together");
  check<ShapeError>(!running_mean || (running_mean.is_contiguous() && running_var.is_contiguous()),
                    "[batch_norm] running statistics are changed in place and must be dense");
  check(training || running_mean, "[batch_norm] without training, running statistics are needed");
}

void require_several_values(bool several, const Tensor& x) {
  check<ShapeError>(several, "[batch_norm] training needs more than one value per channel, input is ", x.shape());
}

// The statistics of this batch and the others as of one; what a rank's rows are of all rows: f64 [2].
Tensor exchange_statistics(MomentExchange& exchange, Tensor& mean, Tensor& invstd, Tensor running_mean,
                           Tensor running_var, const Tensor& x, const Tensor& rows, const BatchNormOptions& o) {
  check(!context().replica, "[batch_norm] statistics that ranks share, in a replica of DataParallel");
  const Device device = x.device();
  const TensorOptions f64{.dtype = Dtype::f64, .device = device};
  Tensor mine = empty({1 + 2 * x.shape()[1]}, f64);
  batch_norm_moments(device, mine, rows);
  const Tensor all = exchange.gather(mine);
  Tensor share = full({2}, double(rows.shape()[0]), f64), total = share.select(0, 1);
  batch_norm_merge(device, mean, invstd, total, running_mean, running_var, all, o.momentum, o.eps);
  // Where there is one value in all, every rank has one at most: only then is the device asked.
  require_several_values(rows.shape()[0] > 1 || total.item<double>() != 1, x);
  return share;
}

// Where statistics are those of all ranks' rows, so are the sums that the data's gradient takes back.
void reduce_sums(MomentExchange& exchange, Tensor& g_weight, Tensor& g_bias, const Tensor& share) {
  Tensor sums = empty({2, g_bias.numel()}, {.dtype = Dtype::f64, .device = g_bias.device()});
  copy_into({sums.select(0, 0), 0}, g_weight);
  copy_into({sums.select(0, 1), 0}, g_bias);
  exchange.reduce(sums, share);
  copy_into({g_weight, 0}, sums.select(0, 0));
  copy_into({g_bias, 0}, sums.select(0, 1));
}

}  // namespace

Tensor batch_norm(const Tensor& x_in, const Tensor& weight_in, const Tensor& bias_in, const Tensor& running_mean_in,
                  const Tensor& running_var_in, BatchNormOptions o) {
  auto [x, strided_weight, strided_bias, running_mean, running_var] =
      enter(kBatchNorm, x_in, weight_in, bias_in, running_mean_in, running_var_in);
  check_operands(x, strided_weight, strided_bias, running_mean, running_var, o.training);
  Tensor weight = detail::dense_or_none(strided_weight), bias = detail::dense_or_none(strided_bias);
  const Device device = x.device();
  const TensorOptions statistic{.dtype = x.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32, .device = device};
  Tensor mean = empty({x.shape()[1]}, statistic), invstd = empty({x.shape()[1]}, statistic);
  Tensor rows = detail::channel_rows(x);
  Tensor share;
  if (!o.training) {
    batch_norm_running_statistics(device, mean, invstd, running_mean, running_var, o.eps);
  } else if (o.exchange) {
    share = exchange_statistics(*o.exchange, mean, invstd, running_mean, running_var, x, rows, o);
  } else if (rows.numel() > 0) {
    require_several_values(rows.shape()[0] != 1, x);
    Tensor to_mean = running_mean, to_var = running_var;
    batch_norm_statistics(device, mean, invstd, to_mean, to_var, rows, o.momentum, o.eps);
  } else {  // a batch of nothing has no statistics, and leaves the running ones alone
    fill_into(mean, 0);
    fill_into(invstd, 0);
  }
  if (o.training)
    for (const Tensor& t : {running_mean, running_var})
      if (t) t.storage()->bump();
  Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = device, .layout = Layout::channels_last});
  detail::in_channel_rows({y, 0}, [&](Out to) { batch_norm_forward(device, to.t, rows, mean, invstd, weight, bias); });

  return record("batch_norm", std::move(y), {x, strided_weight, strided_bias},
                [rows = Saved("batch_norm", rows), weight = Saved("batch_norm", weight), mean, invstd, share,
                 exchange = o.exchange, training = o.training](Tensor& gy, Targets t) {
                  const Device d = gy.device();
                  gy = as_layout(gy, Layout::channels_last);  // now its rows are a view
                  Tensor g_weight = empty_like(mean), g_bias = empty_like(mean);
                  if (t[1] || t[2] || training)
                    batch_norm_backward_weight(d, g_weight, g_bias, detail::channel_rows(gy), rows(), mean, invstd);
                  if (t[1]) copy_into(t[1].out(), g_weight);
                  if (t[2]) copy_into(t[2].out(), g_bias);
                  if (!t[0]) return;
                  if (share) reduce_sums(*exchange, g_weight, g_bias, share);
                  Out out = t[0].out_over(gy);
                  Tensor g = detail::channel_rows(gy);
                  detail::in_channel_rows(std::move(out), [&](Out gx) {
                    batch_norm_backward_data(d, std::move(gx), g, rows(), mean, invstd, weight(), g_weight, g_bias,
                                             training);
                  });
                });
}

namespace {

constexpr int64_t kGrain = 1 << 14;

// f(offset, column) for every element of rows [m,c], in parallel: y = f, or y += f.
template <class T, class F>
void over_rows(const Tensor& rows, T* y, bool add, F f) {
  const int64_t m = rows.shape()[0], c = rows.shape()[1];
  parallel_for(m, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, c)), [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = r * c;
      if (add) {
#pragma omp simd
        for (int64_t j = 0; j < c; ++j) y[first + j] += f(first + j, j);
      } else {
#pragma omp simd
        for (int64_t j = 0; j < c; ++j) y[first + j] = f(first + j, j);
      }
    }
  });
}

// f(channel, mean, biased variance) of rows [m,c].
template <class T, class F>
void each_channel(const Tensor& rows, F f) {
  const int64_t m = rows.shape()[0], c = rows.shape()[1];
  const T* x = rows.ptr<T>();
  // One pass: sums of x - k and (x - k)^2, where k is the first row, so that a mean far from 0 costs no digits.
  Tensor sums = detail::row_sums(rows, 2 * c, [x, c](int64_t r, double* s) {
    const T* row = x + r * c;
    double* q = s + c;
#pragma omp simd
    for (int64_t j = 0; j < c; ++j) {
      const double d = double(row[j]) - double(x[j]);
      s[j] += d;
      q[j] += d * d;
    }
  });
  const auto *s = sums.ptr<double>(), *q = s + c;
  const auto n = double(m);
  for (int64_t j = 0; j < c; ++j) {
    const double shift = s[j] / n;
    f(j, double(x[j]) + shift, std::max(q[j] / n - shift * shift, 0.0));  // in this order NaN stays
  }
}

// Where a batch's statistics go.
template <class T>
struct Statistics {
  T *mean, *invstd, *running_mean, *running_var;
  double momentum, eps;
  Statistics(Tensor& m, Tensor& is, Tensor& rm, Tensor& rv, double mom, double e)
      : mean(m.ptr<T>()),
        invstd(is.ptr<T>()),
        running_mean(rm ? rm.ptr<T>() : nullptr),
        running_var(rv ? rv.ptr<T>() : nullptr),
        momentum(mom),
        eps(e) {}

  // n values in the channel.
  void set(int64_t j, double average, double var, double n) const {
    mean[j] = T(average);
    invstd[j] = T(1 / std::sqrt(var + eps));
    if (!running_mean) return;
    running_mean[j] = T((1 - momentum) * double(running_mean[j]) + momentum * average);
    running_var[j] = T((1 - momentum) * double(running_var[j]) + momentum * var * n / (n - 1));
  }
};

void batch_norm_statistics_cpu(Tensor& mean, Tensor& invstd, Tensor& running_mean, Tensor& running_var, const Tensor& x,
                               double momentum, double eps) {
  dispatch_real("batch_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const Statistics<T> to(mean, invstd, running_mean, running_var, momentum, eps);
    const auto n = double(x.shape()[0]);
    each_channel<T>(x, [&](int64_t j, double average, double var) { to.set(j, average, var, n); });
  });
}

void batch_norm_moments_cpu(Tensor& moments, const Tensor& x) {
  fill_into(moments, 0);
  const int64_t m = x.shape()[0], c = x.shape()[1];
  if (m == 0) return;
  auto *to_mean = moments.ptr<double>() + 1, *to_squares = to_mean + c;
  to_mean[-1] = double(m);
  dispatch_real("batch_norm", x.dtype(), [&](auto t) {
    each_channel<decltype(t)>(x, [&](int64_t j, double average, double var) {
      to_mean[j] = average;
      to_squares[j] = var * double(m);
    });
  });
}

void batch_norm_merge_cpu(Tensor& mean, Tensor& invstd, Tensor& total, Tensor& running_mean, Tensor& running_var,
                          const Tensor& moments, double momentum, double eps) {
  dispatch_real("batch_norm", mean.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t parts = moments.shape()[0], c = mean.numel();
    const Statistics<T> to(mean, invstd, running_mean, running_var, momentum, eps);
    double n = 0;
    for (int64_t k = 0; k < parts; ++k) n += moments.ptr<double>()[k * (1 + 2 * c)];
    *total.ptr<double>() = n;
    for (int64_t j = 0; j < c; ++j) {
      double count = 0, average = 0, squares = 0;
      for (int64_t k = 0; k < parts; ++k) {
        const double* part = moments.ptr<double>() + k * (1 + 2 * c);
        if (part[0] == 0) continue;
        const double distance = part[1 + j] - average, both = count + part[0];
        average += distance * (part[0] / both);
        squares += part[1 + c + j] + distance * distance * (count * part[0] / both);
        count = both;
      }
      if (n > 0)
        to.set(j, average, squares / n, n);
      else
        to.mean[j] = to.invstd[j] = 0;
    }
  });
}

void batch_norm_running_statistics_cpu(Tensor& mean, Tensor& invstd, const Tensor& running_mean,
                                       const Tensor& running_var, double eps) {
  dispatch_real("batch_norm", mean.dtype(), [&](auto t) {
    using T = decltype(t);
    const T *from_mean = running_mean.ptr<T>(), *var = running_var.ptr<T>();
    T *to_mean = mean.ptr<T>(), *to_invstd = invstd.ptr<T>();
    for (int64_t j = 0; j < mean.numel(); ++j) {
      to_mean[j] = from_mean[j];
      to_invstd[j] = T(1 / std::sqrt(double(var[j]) + eps));
    }
  });
}

// A coefficient per channel.
template <class T, class F>
Tensor coefficients(const Tensor& mean, F f) {
  Tensor k = empty_like(mean);
  T* v = k.ptr<T>();
  for (int64_t j = 0; j < mean.numel(); ++j) v[j] = T(f(j));
  return k;
}

void batch_norm_forward_cpu(Tensor& y, const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& weight,
                            const Tensor& bias) {
  dispatch_real("batch_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T *p = x.ptr<T>(), *mu = mean.ptr<T>(), *is = invstd.ptr<T>();
    const T *w = weight ? weight.ptr<T>() : nullptr, *b = bias ? bias.ptr<T>() : nullptr;
    const Tensor scales = coefficients<T>(mean, [=](int64_t j) { return w ? is[j] * w[j] : is[j]; });
    const Tensor shifts = coefficients<T>(mean, [=](int64_t j) { return b ? b[j] : T(0); });
    const T *scale = scales.ptr<T>(), *shift = shifts.ptr<T>();
    over_rows<T>(x, y.ptr<T>(), false, [=](int64_t i, int64_t j) { return (p[i] - mu[j]) * scale[j] + shift[j]; });
  });
}

void batch_norm_backward_weight_cpu(Tensor& g_weight, Tensor& g_bias, const Tensor& gy, const Tensor& x,
                                    const Tensor& mean, const Tensor& invstd) {
  dispatch_real("batch_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t c = x.shape()[1];
    const T *p = x.ptr<T>(), *g = gy.ptr<T>(), *mu = mean.ptr<T>(), *is = invstd.ptr<T>();
    const Tensor sums = detail::row_sums(x, 2 * c, [=](int64_t r, double* s) {
      double* q = s + c;
#pragma omp simd
      for (int64_t j = 0; j < c; ++j) {
        const auto u = double(g[r * c + j]);
        s[j] += u;
        q[j] += u * double(p[r * c + j] - mu[j]);
      }
    });
    const auto *s = sums.ptr<double>(), *q = s + c;
    T *to_weight = g_weight.ptr<T>(), *to_bias = g_bias.ptr<T>();
    for (int64_t j = 0; j < c; ++j) {
      to_bias[j] = T(s[j]);
      to_weight[j] = T(q[j] * double(is[j]));
    }
  });
}

void batch_norm_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                  const Tensor& weight, const Tensor& g_weight, const Tensor& g_bias, bool training) {
  dispatch_real("batch_norm", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T *p = x.ptr<T>(), *g = gy.ptr<T>(), *mu = mean.ptr<T>(), *is = invstd.ptr<T>();
    const T *w = weight ? weight.ptr<T>() : nullptr, *gw = g_weight.ptr<T>(), *gb = g_bias.ptr<T>();
    T* q = gx.t.ptr<T>();
    const bool add = gx.beta != 0;
    const Tensor scales = coefficients<T>(mean, [=](int64_t j) { return w ? is[j] * w[j] : is[j]; });
    const T* scale = scales.ptr<T>();
    if (!training) return over_rows<T>(x, q, add, [=](int64_t i, int64_t j) { return g[i] * scale[j]; });
    // The mean and the variance take their share back: of gy, its average and its part along x - mean.
    const auto m = double(x.shape()[0]);
    const Tensor averages = coefficients<T>(mean, [=](int64_t j) { return double(gb[j]) / m; });
    const Tensor slopes = coefficients<T>(mean, [=](int64_t j) { return double(gw[j]) * double(is[j]) / m; });
    const T *average = averages.ptr<T>(), *slope = slopes.ptr<T>();
    over_rows<T>(x, q, add,
                 [=](int64_t i, int64_t j) { return ((g[i] - average[j]) - (p[i] - mu[j]) * slope[j]) * scale[j]; });
  });
}

TANDEM_CPU_KERNEL(batch_norm_statistics, batch_norm_statistics_cpu);
TANDEM_CPU_KERNEL(batch_norm_moments, batch_norm_moments_cpu);
TANDEM_CPU_KERNEL(batch_norm_merge, batch_norm_merge_cpu);
TANDEM_CPU_KERNEL(batch_norm_running_statistics, batch_norm_running_statistics_cpu);
TANDEM_CPU_KERNEL(batch_norm_forward, batch_norm_forward_cpu);
TANDEM_CPU_KERNEL(batch_norm_backward_weight, batch_norm_backward_weight_cpu);
TANDEM_CPU_KERNEL(batch_norm_backward_data, batch_norm_backward_data_cpu);

}  // namespace
}  // namespace tandem
