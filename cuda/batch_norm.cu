// Kernels of our own and not cuDNN's: statistics, their exchange among ranks, normalising and the two sums of the
// backward are separate steps here, the sums come out the same in every run, and cuDNN offers neither.
#include <tandem/cuda/fold_rows.h>
#include <tandem/cuda/row_grid.h>
#include <tandem/ops/batch_norm.h>

namespace tandem::cuda_impl {
namespace {

// A channel's values so far: how many, their mean and the sum of squared distances from it. Taken one by one (Welford
// 1962) and put together (Chan, Golub, LeVeque 1983), so that no mean however far from 0 costs digits.
template <class T>
struct Moments {
  T n, mean, squares;
  __device__ void take(T x, T reciprocal) {  // of n + 1
    const T distance = x - mean;
    n += T(1);
    mean += distance * reciprocal;
    squares += distance * (x - mean);
  }
};
template <class T>
struct Merge {
  using Acc = Moments<T>;
  __device__ static Acc identity() { return {0, 0, 0}; }
  __device__ static Acc combine(const Acc& a, const Acc& b) {
    if (a.n == T(0)) return b;
    if (b.n == T(0)) return a;
    const T n = a.n + b.n, distance = b.mean - a.mean, share = b.n / n;
    return {n, a.mean + distance * share, a.squares + b.squares + distance * distance * a.n * share};
  }
};

template <class T>
struct TakeRow {
  const T* x;
  int64_t cols;
  template <int N>
  __device__ void operator()(int64_t row, int64_t col, Moments<Compute<T>> (&acc)[N]) const {
    const auto v = load<N>(x + row * cols + col);
    const Compute<T> reciprocal = Compute<T>(1) / (acc[0].n + Compute<T>(1));
    for (int k = 0; k < N; ++k) acc[k].take(widen(v.v[k]), reciprocal);
  }
};

// Where a batch's statistics go; running ones are null where there are none.
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
  __device__ void set(int64_t j, double average, double var, double n) const {
    mean[j] = T(average);
    invstd[j] = T(1 / sqrt(var + eps));
    if (!running_mean) return;
    running_mean[j] = T((1 - momentum) * double(running_mean[j]) + momentum * average);
    running_var[j] = T((1 - momentum) * double(running_var[j]) + momentum * var * n / (n - 1));
  }
};

template <class T>
struct SetStatistics {
  Statistics<T> to;
  double rows;
  __device__ void operator()(int64_t j, const Moments<T>& m) const {
    to.set(j, double(m.mean), double(m.squares) / rows, rows);
  }
};

template <class T>
struct PutMoments {
  double *rows, *mean, *squares;
  double count;
  __device__ void operator()(int64_t j, const Moments<T>& m) const {
    if (j == 0) *rows = count;
    mean[j] = double(m.mean);
    squares[j] = double(m.squares);
  }
};

template <class T>
__global__ void merge_parts(Statistics<T> to, double* total, const double* moments, int64_t parts, int64_t cols) {
  for (int64_t j = first_index(); j < cols; j += index_step()) {
    Moments<double> all{0, 0, 0};
    for (int64_t k = 0; k < parts; ++k) {
      const double* part = moments + k * (1 + 2 * cols);
      all = Merge<double>::combine(all, {part[0], part[1 + j], part[1 + cols + j]});
    }
    if (j == 0) *total = all.n;
    if (all.n > 0)
      to.set(j, all.mean, all.squares / all.n, all.n);
    else
      to.mean[j] = to.invstd[j] = T(0);
  }
}

template <class T>
__global__ void use_running(T* mean, T* invstd, const T* running_mean, const T* running_var, double eps, int64_t cols) {
  for (int64_t j = first_index(); j < cols; j += index_step()) {
    mean[j] = running_mean[j];
    invstd[j] = T(1 / sqrt(double(running_var[j]) + eps));
  }
}

// S is what statistics and parameters are: f64 for f64, f32 for all others. weight and bias may be null.
template <class T, class S, int N>
__global__ void normalize(T* y, const T* x, const S* mean, const S* invstd, const S* weight, const S* bias,
                          int64_t rows, int64_t cols) {
  for (int64_t i = first_item(); i < cols / N; i += item_step()) {
    S center[N], scale[N], shift[N];
    for (int k = 0; k < N; ++k) {
      const int64_t j = i * N + k;
      center[k] = mean[j];
      scale[k] = weight ? invstd[j] * weight[j] : invstd[j];
      shift[k] = bias ? bias[j] : S(0);
    }
    for (int64_t r = first_row(); r < rows; r += row_step()) {
      const auto in = load<N>(x + r * cols + i * N);
      Pack<T, N> out;
      for (int k = 0; k < N; ++k) out.v[k] = narrow<T>((widen(in.v[k]) - center[k]) * scale[k] + shift[k]);
      store(y + r * cols + i * N, out);
    }
  }
}

// Sums of gy and of gy (x - mean).
template <class S>
struct Sums {
  S g, along;
};
template <class S>
struct AddSums {
  using Acc = Sums<S>;
  __device__ static Acc identity() { return {0, 0}; }
  __device__ static Acc combine(const Acc& a, const Acc& b) { return {a.g + b.g, a.along + b.along}; }
};

template <class T, class S>
struct AddRow {
  const T *gy, *x;
  const S* mean;
  int64_t cols;
  template <int N>
  __device__ void operator()(int64_t row, int64_t col, Sums<S> (&sums)[N]) const {
    const auto g = load<N>(gy + row * cols + col), in = load<N>(x + row * cols + col);
    for (int k = 0; k < N; ++k) {
      sums[k].g += widen(g.v[k]);
      sums[k].along += widen(g.v[k]) * (widen(in.v[k]) - mean[col + k]);
    }
  }
};

template <class S>
struct PutSums {
  S *g_weight, *g_bias;
  const S* invstd;
  __device__ void operator()(int64_t j, const Sums<S>& sums) const {
    g_bias[j] = sums.g;
    g_weight[j] = sums.along * invstd[j];
  }
};

// No __restrict__: gx may be gy.
template <class T, class S, int N>
__global__ void give_back(T* gx, bool add, const T* gy, const T* x, const S* mean, const S* invstd, const S* weight,
                          const S* g_weight, const S* g_bias, bool training, int64_t rows, int64_t cols) {
  for (int64_t i = first_item(); i < cols / N; i += item_step()) {
    // The mean and the variance take their share back: of gy, its average and its part along x - mean.
    S center[N], scale[N], average[N], slope[N];
    for (int k = 0; k < N; ++k) {
      const int64_t j = i * N + k;
      center[k] = mean[j];
      scale[k] = weight ? invstd[j] * weight[j] : invstd[j];
      average[k] = training ? g_bias[j] / S(rows) : S(0);
      slope[k] = training ? g_weight[j] * invstd[j] / S(rows) : S(0);
    }
    for (int64_t r = first_row(); r < rows; r += row_step()) {
      const int64_t at = r * cols + i * N;
      const auto g = load<N>(gy + at);
      Pack<T, N> in{}, out{};
      if (training) in = load<N>(x + at);
      if (add) out = load<N>(gx + at);
      for (int k = 0; k < N; ++k) {
        const S v = (widen(g.v[k]) - average[k] - (widen(in.v[k]) - center[k]) * slope[k]) * scale[k];
        out.v[k] = narrow<T>(add ? widen(out.v[k]) + v : v);
      }
      store(gx + at, out);
    }
  }
}

// -- slots
// -------------------------------------------------------------------------------------------------------------

// A parameter or running statistic in the type of the statistics: a copy where it is f16 or bf16.
Tensor wide(const Tensor& t) {
  return t && is_half(t.dtype()) ? copy_of(t, {.dtype = Dtype::f32, .device = t.device()}) : t;
}
void put_back(Tensor& t, const Tensor& from) {
  if (t && !t.is_same(from)) copy_into({t, 0}, from);
}
template <class S>
const S* pointer(const Tensor& t) {
  return t ? t.ptr<S>() : nullptr;
}

void statistics(Tensor& mean, Tensor& invstd, Tensor& running_mean, Tensor& running_var, const Tensor& x,
                double momentum, double eps) {
  On on(x);
  const int64_t rows = x.shape()[0], cols = x.shape()[1];
  Tensor to_mean = wide(running_mean), to_var = wide(running_var);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using S = Compute<T>;
    const SetStatistics<S> set{{mean, invstd, to_mean, to_var, momentum, eps}, double(rows)};
    auto run = [&](auto n) { fold_rows<Merge<S>, n()>(on, rows, cols, TakeRow<T>{x.ptr<T>(), cols}, set); };
    with_packs(cols, run, x.ptr<T>());
  });
  put_back(running_mean, to_mean);
  put_back(running_var, to_var);
}

void moments(Tensor& to, const Tensor& x) {
  On on(x);
  const int64_t rows = x.shape()[0], cols = x.shape()[1];
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using S = Compute<T>;
    auto* p = to.ptr<double>();
    const PutMoments<S> put{p, p + 1, p + 1 + cols, double(rows)};
    auto run = [&](auto n) { fold_rows<Merge<S>, n()>(on, rows, cols, TakeRow<T>{x.ptr<T>(), cols}, put); };
    with_packs(cols, run, x.ptr<T>());
  });
}

void merge(Tensor& mean, Tensor& invstd, Tensor& total, Tensor& running_mean, Tensor& running_var,
           const Tensor& of_parts, double momentum, double eps) {
  On on(mean);
  const int64_t cols = mean.numel();
  Tensor to_mean = wide(running_mean), to_var = wide(running_var);
  dispatch_real("batch_norm", mean.dtype(), [&](auto s) {
    using S = decltype(s);
    launch(on, grid_for(cols), merge_parts<S>, Statistics<S>(mean, invstd, to_mean, to_var, momentum, eps),
           total.ptr<double>(), of_parts.ptr<double>(), of_parts.shape()[0], cols);
  });
  put_back(running_mean, to_mean);
  put_back(running_var, to_var);
}

void running_statistics(Tensor& mean, Tensor& invstd, const Tensor& running_mean, const Tensor& running_var,
                        double eps) {
  On on(mean);
  const Tensor from_mean = wide(running_mean), from_var = wide(running_var);
  dispatch_real("batch_norm", mean.dtype(), [&](auto s) {
    using S = decltype(s);
    launch(on, grid_for(mean.numel()), use_running<S>, mean.ptr<S>(), invstd.ptr<S>(), from_mean.ptr<S>(),
           from_var.ptr<S>(), eps, mean.numel());
  });
}

void forward(Tensor& y, const Tensor& x, const Tensor& mean, const Tensor& invstd, const Tensor& weight,
             const Tensor& bias) {
  if (x.numel() == 0) return;
  On on(x);
  const int64_t rows = x.shape()[0], cols = x.shape()[1];
  const Tensor w = wide(weight), b = wide(bias);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using S = Compute<T>;
    auto run = [&](auto n) {
      launch(on, row_grid(rows, cols / n()), normalize<T, S, n()>, y.ptr<T>(), x.ptr<T>(), mean.ptr<S>(),
             invstd.ptr<S>(), pointer<S>(w), pointer<S>(b), rows, cols);
    };
    with_packs(cols, run, y.ptr<T>(), x.ptr<T>());
  });
}

void backward_weight(Tensor& g_weight, Tensor& g_bias, const Tensor& gy, const Tensor& x, const Tensor& mean,
                     const Tensor& invstd) {
  On on(x);
  const int64_t rows = x.shape()[0], cols = x.shape()[1];
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using S = Compute<T>;
    const AddRow<T, S> add{gy.ptr<T>(), x.ptr<T>(), mean.ptr<S>(), cols};
    const PutSums<S> put{g_weight.ptr<S>(), g_bias.ptr<S>(), invstd.ptr<S>()};
    auto run = [&](auto n) { fold_rows<AddSums<S>, n()>(on, rows, cols, add, put); };
    with_packs(cols, run, gy.ptr<T>(), x.ptr<T>());
  });
}

void backward_data(Out gx, const Tensor& gy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                   const Tensor& weight, const Tensor& g_weight, const Tensor& g_bias, bool training) {
  if (x.numel() == 0) return;
  On on(x);
  const int64_t rows = x.shape()[0], cols = x.shape()[1];
  const Tensor w = wide(weight);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using S = Compute<T>;
    auto run = [&](auto n) {
      launch(on, row_grid(rows, cols / n()), give_back<T, S, n()>, gx.t.ptr<T>(), gx.beta != 0, gy.ptr<T>(), x.ptr<T>(),
             mean.ptr<S>(), invstd.ptr<S>(), pointer<S>(w), g_weight.ptr<S>(), g_bias.ptr<S>(), training, rows, cols);
    };
    with_packs(cols, run, gx.t.ptr<T>(), gy.ptr<T>(), x.ptr<T>());
  });
}

TANDEM_KERNEL(batch_norm_statistics, cuda, statistics);
TANDEM_KERNEL(batch_norm_moments, cuda, moments);
TANDEM_KERNEL(batch_norm_merge, cuda, merge);
TANDEM_KERNEL(batch_norm_running_statistics, cuda, running_statistics);
TANDEM_KERNEL(batch_norm_forward, cuda, forward);
TANDEM_KERNEL(batch_norm_backward_weight, cuda, backward_weight);
TANDEM_KERNEL(batch_norm_backward_data, cuda, backward_data);

}  // namespace
}  // namespace tandem::cuda_impl
