/// Not installed: the loops of CPU kernels over tensors that are dense in one layout.
#pragma once
#include <tandem/core/node.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/compute.h>

namespace tandem::detail {

/// y = op(x), in the elements' compute type.
template <class T, class Op>
void unary_loop(const Tensor& y, const Tensor& x, Op op) {
  using C = Compute<T>;
  const T* p = x.ptr<T>();
  T* q = y.ptr<T>();
  tandem::parallel_for(x.numel(), kPointwiseGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
    for (int64_t i = a; i < b; ++i) assign(q[i], op(C(p[i])));
  });
}

/// y = beta * y + op(x...).
template <class T, class Op, class... X>
void unary_loop_into(const Out& y, Op op, const X&... x) {
  using C = Compute<T>;
  T* q = y.t.ptr<T>();
  const bool add = y.beta != 0;
  auto over = [=](const auto*... p) {
    tandem::parallel_for(y.t.numel(), kPointwiseGrain, [=](int64_t a, int64_t b) {
      if (add) {
#pragma omp simd
        for (int64_t i = a; i < b; ++i) assign(q[i], C(q[i]) + op(C(p[i])...));
      } else {
#pragma omp simd
        for (int64_t i = a; i < b; ++i) assign(q[i], op(C(p[i])...));
      }
    });
  };
  over(static_cast<const T*>(x.template ptr<T>())...);
}

}  // namespace tandem::detail
