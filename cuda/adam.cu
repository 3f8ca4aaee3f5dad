// Two launches for each run of neighbouring rows: one thread counts the step and works out, in f64, what all elements
// share; then one pass, 16 bytes at a time. Options and step counts are read from device memory: what a captured step
// replays follows them.
#include <tandem/cuda/rows.h>
#include <tandem/ops/adam.h>

#include <cmath>

namespace tandem::cuda_impl {
namespace {

// A group's options at its t-th update, as they are computed with.
template <class A>
struct Options {
  A step_size, root_correction, eps, beta1, beta2, rest1, rest2, sign, keep, coupled;
  bool amsgrad;

  __device__ Options(const double* o, double t)
      : step_size(A(o[kAdamLr] / (1 - std::pow(o[kAdamBeta1], t)))),
        root_correction(A(std::sqrt(1 - std::pow(o[kAdamBeta2], t)))),
        eps(A(o[kAdamEps])),
        beta1(A(o[kAdamBeta1])),
        beta2(A(o[kAdamBeta2])),
        rest1(A(1 - o[kAdamBeta1])),
        rest2(A(1 - o[kAdamBeta2])),
        sign(o[kAdamMaximize] != 0 ? A(-1) : A(1)),
        keep(o[kAdamDecoupled] != 0 ? A(1 - o[kAdamLr] * o[kAdamWeightDecay]) : A(1)),
        coupled(o[kAdamDecoupled] != 0 ? A(0) : A(o[kAdamWeightDecay])),
        amsgrad(o[kAdamAmsgrad] != 0) {}

  // eps stands outside the root, after the bias correction; amsgrad's maximum is over the uncorrected averages.
  template <class T>
  __device__ void update(T& p, T g, T& avg, T& sq, T* largest) const {
    const A value = A(p);
    const A grad = sign * A(g) + coupled * value;
    const A m = beta1 * A(avg) + rest1 * grad;
    A v = beta2 * A(sq) + rest2 * grad * grad;
    avg = T(m);
    sq = T(v);
    if (amsgrad) {
      const A before = A(*largest);
      v = v <= before ? before : v;
      *largest = T(v);
    }
    const A root = std::sqrt(v) / root_correction + eps;
    p = T(keep * value - step_size * m / root);
  }
};

// Rows of a run have one count.
template <class A>
__global__ void count_step_kernel(Options<A>* to, const double* options, double* steps, int64_t rows) {
  for (int64_t i = first_index(); i < rows; i += index_step()) {
    const double t = steps[i] + 1;
    steps[i] = t;
    if (i == 0) *to = Options<A>(options, t);
  }
}

template <class T>
struct Memory {
  T* p;
  const T* g;
  T *avg, *sq, *largest;  // largest may be null where the group has no amsgrad
};

template <class T>
__global__ void adam_kernel(Memory<T> m, const Options<Compute<T>>* options, int64_t n, bool packed) {
  const Options<Compute<T>> o = *options;
  constexpr int N = kPack<T>;
  using P = Pack<T, N>;
  const int64_t packs = packed ? n / N : 0;
  for (int64_t i = first_index(); i < packs; i += index_step()) {
    P p = reinterpret_cast<P*>(m.p)[i], avg = reinterpret_cast<P*>(m.avg)[i], sq = reinterpret_cast<P*>(m.sq)[i];
    const P g = reinterpret_cast<const P*>(m.g)[i];
    P largest{};
    if (o.amsgrad) largest = reinterpret_cast<P*>(m.largest)[i];
    for (int k = 0; k < N; ++k) o.update(p.v[k], g.v[k], avg.v[k], sq.v[k], &largest.v[k]);
    reinterpret_cast<P*>(m.p)[i] = p;
    reinterpret_cast<P*>(m.avg)[i] = avg;
    reinterpret_cast<P*>(m.sq)[i] = sq;
    if (o.amsgrad) reinterpret_cast<P*>(m.largest)[i] = largest;
  }
  for (int64_t i = packs * N + first_index(); i < n; i += index_step())
    o.update(m.p[i], m.g[i], m.avg[i], m.sq[i], m.largest ? m.largest + i : nullptr);
}

void adam_step_cuda(std::span<const ParamRow> rows, const AdamState& state, const Tensor& options) {
  if (rows.empty()) return;
  On on(options);
  dispatch_float(rows[0].leaf->meta.dtype, [&](auto t) {
    using T = decltype(t);
    using O = Options<Compute<T>>;
    for_each_run<T>(rows, [&](size_t first, size_t count, int64_t n) {
      const ParamRow& r = rows[first];
      const Tensor shared = empty({int64_t(sizeof(O))}, {.dtype = Dtype::u8, .device = options.device()});
      auto* o = static_cast<O*>(shared.raw());
      launch(on, grid_for(int64_t(count)), count_step_kernel<Compute<T>>, o,
             options.ptr<double>() + r.group * kAdamOptions, state.steps.ptr<double>() + first, int64_t(count));
      const Memory<T> m{r.value<T>(), r.grad<T>(), state.exp_avg.ptr<T>() + r.state_offset,
                        state.exp_avg_sq.ptr<T>() + r.state_offset,
                        state.max_exp_avg_sq ? state.max_exp_avg_sq.ptr<T>() + r.state_offset : nullptr};
      launch(on, grid_for((n + kPack<T> - 1) / kPack<T>), adam_kernel<T>, m, o, n,
             are_packed(m.p, m.g, m.avg, m.sq, m.largest));
    });
  });
}

TANDEM_KERNEL(adam_step, cuda, adam_step_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
