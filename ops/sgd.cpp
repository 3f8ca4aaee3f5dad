#include <tandem/core/parallel_for.h>
#include <tandem/ops/sgd.h>

namespace tandem {
namespace {

constexpr int64_t kGrain = 1 << 14;

// A group's options in the type that is computed in: f64 for f64, else f32.
template <class A>
struct Options {
  A lr, momentum, undamped, weight_decay, sign;
  bool has_momentum, nesterov;
  explicit Options(const double* o)
      : lr(A(o[kSgdLr])),
        momentum(A(o[kSgdMomentum])),
        undamped(A(1 - o[kSgdDampening])),
        weight_decay(A(o[kSgdWeightDecay])),
        sign(o[kSgdMaximize] != 0 ? A(-1) : A(1)),
        has_momentum(o[kSgdMomentum] != 0),
        nesterov(o[kSgdNesterov] != 0) {}
};

template <class T, class A>
void plain(T* p, const T* g, Options<A> o, int64_t from, int64_t to) {
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    A value = A(p[i]);
    p[i] = T(value - o.lr * (o.sign * A(g[i]) + o.weight_decay * value));
  }
}

template <bool kFirst, bool kNesterov, class T, class A>
void with_momentum(T* p, const T* g, T* m, Options<A> o, int64_t from, int64_t to) {
#pragma omp simd
  for (int64_t i = from; i < to; ++i) {
    A value = A(p[i]);
    A d = o.sign * A(g[i]) + o.weight_decay * value;
    A buffer = kFirst ? d : o.momentum * A(m[i]) + o.undamped * d;
    m[i] = T(buffer);
    p[i] = T(value - o.lr * (kNesterov ? d + o.momentum * buffer : buffer));
  }
}

template <class T>
void step(std::span<const ParamRow> rows, const Tensor& momentum_buffer, const Tensor& options) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for_each_run<T>(rows, [&](size_t first_row, size_t, int64_t n) {
    const ParamRow& r = rows[first_row];
    const bool first = r.step == 0;
    const Options<A> o(options.ptr<double>() + r.group * kSgdOptions);
    T* p = r.value<T>();
    const T* g = r.grad<T>();
    if (!o.has_momentum) return parallel_for(n, kGrain, [=](int64_t a, int64_t b) { plain(p, g, o, a, b); });
    T* m = momentum_buffer.ptr<T>() + r.state_offset;
    parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
      auto pass = first ? (o.nesterov ? with_momentum<true, true, T, A> : with_momentum<true, false, T, A>)
                        : (o.nesterov ? with_momentum<false, true, T, A> : with_momentum<false, false, T, A>);
      pass(p, g, m, o, a, b);
    });
  });
}

void sgd_step_cpu(std::span<const ParamRow> rows, const Tensor& momentum_buffer, const Tensor& options) {
  if (rows.empty()) return;
  dispatch_all(rows[0].leaf->meta.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (is_floating(dtype_of<T>)) step<T>(rows, momentum_buffer, options);
  });
}

TANDEM_KERNEL(sgd_step, cpu, sgd_step_cpu);

}  // namespace
}  // namespace tandem
