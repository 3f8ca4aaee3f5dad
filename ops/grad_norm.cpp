#include <tandem/core/parallel_for.h>
#include <tandem/ops/grad_norm.h>

#include <cmath>

namespace tandem {
namespace {

constexpr int64_t kPart = 1 << 14;  // elements of one partial sum
constexpr int64_t kGrain = 1 << 14;

// Several partial sums side by side: one alone would wait for each addition, and their number is part of the result.
constexpr int kLanes = 16;

template <class A, class T, class F>
double sum_of(const T* g, int64_t n, F term) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int j = 0; j < kLanes; ++j) lanes[j] += term(double(A(g[i + j])));
  for (int j = 0; i < n; ++i, ++j) lanes[j] += term(double(A(g[i])));
  double s = 0;
  for (double lane : lanes) s += lane;
  return s;
}

// The larger of two magnitudes; a NaN wins and stays.
double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

template <class A, class T>
double largest_of(const T* g, int64_t n) {
  double m = 0;
  for (int64_t i = 0; i < n; ++i) m = larger(m, std::abs(double(A(g[i]))));
  return m;
}

template <class T>
double part_of(const T* g, int64_t n, double p) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  if (std::isinf(p)) return largest_of<A>(g, n);
  if (p == 2) return sum_of<A>(g, n, [](double v) { return v * v; });
  if (p == 1) return sum_of<A>(g, n, [](double v) { return std::abs(v); });
  return sum_of<A>(g, n, [p](double v) { return std::pow(std::abs(v), p); });
}

template <class F>
void for_floating(Dtype t, F&& f) {
  dispatch_all(t, [&](auto v) {
    using T = decltype(v);
    if constexpr (is_floating(dtype_of<T>)) f(T{});
  });
}

void grad_norm_cpu(Tensor& norm, std::span<const Tensor> grads, double p) {
  struct Part {
    const Tensor* grad;
    int64_t from;
  };
  std::vector<Part> parts;
  for (auto& g : grads)
    for (int64_t from = 0; from < g.numel(); from += kPart) parts.push_back({&g, from});
  std::vector<double> sums(parts.size());
  parallel_for(int64_t(parts.size()), 1, [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; ++i) {
      const Part& part = parts[size_t(i)];
      const Tensor& g = *part.grad;
      for_floating(g.dtype(), [&](auto t) {
        const auto* data = g.ptr<decltype(t)>() + part.from;
        sums[size_t(i)] = part_of(data, std::min(kPart, g.numel() - part.from), p);
      });
    }
  });
  double total = 0;
  for (double s : sums) total = std::isinf(p) ? larger(total, s) : total + s;
  *norm.ptr<double>() = std::isinf(p) ? total : p == 2 ? std::sqrt(total) : std::pow(total, 1 / p);
}

template <class T>
void scale(T* g, int64_t n, double by) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
    for (int64_t i = a; i < b; ++i) g[i] = T(A(g[i]) * A(by));
  });
}

void grad_scale_cpu(std::span<const Tensor> grads, const Tensor& norm, double max_norm) {
  const double by = max_norm / (*norm.ptr<double>() + 1e-6);
  if (by >= 1) return;  // a NaN goes on
  for (auto& g : grads) for_floating(g.dtype(), [&](auto t) { scale(g.ptr<decltype(t)>(), g.numel(), by); });
}

template <class T>
void clamp(T* g, int64_t n, double limit) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const A high = A(limit), low = -high;
  parallel_for(n, kGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
    for (int64_t i = a; i < b; ++i) {
      A v = A(g[i]);
      v = v < low ? low : v;
      g[i] = T(v > high ? high : v);
    }
  });
}

void grad_clamp_cpu(std::span<const Tensor> grads, double limit) {
  for (auto& g : grads) for_floating(g.dtype(), [&](auto t) { clamp(g.ptr<decltype(t)>(), g.numel(), limit); });
}

TANDEM_KERNEL(grad_norm, cpu, grad_norm_cpu);
TANDEM_KERNEL(grad_scale, cpu, grad_scale_cpu);
TANDEM_KERNEL(grad_clamp, cpu, grad_clamp_cpu);

}  // namespace
}  // namespace tandem
