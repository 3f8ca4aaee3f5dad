#include <tandem/core/parallel_for.h>
#include <tandem/ops/adam.h>

#include <cmath>

namespace tandem {
namespace {

constexpr int64_t kGrain = 1 << 13;

// A group's options at its t-th update, in the type that is computed in: f64 for f64, else f32.
template <class A>
struct Options {
  A step_size, root_correction, eps, beta1, beta2, rest1, rest2, sign, keep, coupled;
  bool amsgrad;
  Options(const double* o, double t)
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
};

// eps stands outside the root, after the bias correction; amsgrad's maximum is over the uncorrected averages.
template <bool kAmsgrad, class T, class A>
void update(T* p, const T* g, T* avg, T* sq, T* largest, Options<A> o, int64_t from, int64_t to) {
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    A value = A(p[i]);
    A grad = o.sign * A(g[i]) + o.coupled * value;
    A m = o.beta1 * A(avg[i]) + o.rest1 * grad;
    A v = o.beta2 * A(sq[i]) + o.rest2 * grad * grad;
    avg[i] = T(m);
    sq[i] = T(v);
    if constexpr (kAmsgrad) {
      A before = A(largest[i]);
      v = v <= before ? before : v;
      largest[i] = T(v);
    }
    A root = std::sqrt(v) / o.root_correction + o.eps;
    p[i] = T(o.keep * value - o.step_size * m / root);
  }
}

template <class T>
void step(std::span<const ParamRow> rows, const AdamState& state, const Tensor& options) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  auto* steps = state.steps.ptr<double>();
  for_each_run<T>(rows, [&](size_t first, size_t count, int64_t n) {
    const ParamRow& r = rows[first];
    const double t = steps[first] + 1;
    for (size_t j = 0; j < count; ++j) steps[first + j] = t;
    const Options<A> o(options.ptr<double>() + r.group * kAdamOptions, t);
    T *p = r.value<T>(), *avg = state.exp_avg.ptr<T>() + r.state_offset,
      *sq = state.exp_avg_sq.ptr<T>() + r.state_offset;
    T* largest = o.amsgrad ? state.max_exp_avg_sq.ptr<T>() + r.state_offset : nullptr;
    const T* g = r.grad<T>();
    parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
      auto pass = o.amsgrad ? update<true, T, A> : update<false, T, A>;
      pass(p, g, avg, sq, largest, o, a, b);
    });
  });
}

void adam_step_cpu(std::span<const ParamRow> rows, const AdamState& state, const Tensor& options) {
  if (rows.empty()) return;
  dispatch_all(rows[0].leaf->meta.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (is_floating(dtype_of<T>)) step<T>(rows, state, options);
  });
}

TANDEM_KERNEL(adam_step, cpu, adam_step_cpu);

}  // namespace
}  // namespace tandem
