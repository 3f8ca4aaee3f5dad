#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/widen.h>

namespace tandem {

constexpr OpId kRelu{"relu"};

Tensor relu(Tensor x_in) {
  auto [x] = enter(kRelu, x_in);
  check<DtypeError>(is_floating(x.dtype()), "[relu] takes floating tensors, got ", x.dtype());
  const bool over = x.unique();  // asked before another handle is made
  Tensor dense = as_dense(x);
  Tensor y = over ? x.detach() : empty_like(dense);
  relu_forward(x.device(), y, dense);
  return record("relu", y, {x}, [y = Saved("relu", y)](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_layout(gy, y().layout());
    gy = {};  // g is the only handle now, and may be written over
    Out gx = t[0].out_over(g);
    relu_backward_data(g.device(), gx, g, y());
  });
}

namespace {

constexpr int64_t kGrain = 1 << 14;

void relu_forward_cpu(Tensor& y, const Tensor& x) {
  dispatch_real("relu", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const T* p = x.ptr<T>();
    T* q = y.ptr<T>();
    parallel_for(x.numel(), kGrain, [=](int64_t a, int64_t b) {
#pragma omp simd
      for (int64_t i = a; i < b; ++i) q[i] = p[i] < T(0) ? T(0) : p[i];
    });
  });
}

void relu_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& y) {
  dispatch_real("relu", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const T *g = gy.ptr<T>(), *v = y.ptr<T>();
    T* q = gx.t.ptr<T>();
    const bool add = gx.beta != 0;
    parallel_for(gy.numel(), kGrain, [=](int64_t a, int64_t b) {
      if (add) {
#pragma omp simd
        for (int64_t i = a; i < b; ++i) {
          T gi = g[i];  // loaded first: g++ does not vectorise the load inside the choice
          q[i] += v[i] <= T(0) ? T(0) : gi;
        }
      } else {
#pragma omp simd
        for (int64_t i = a; i < b; ++i) {
          T gi = g[i];
          q[i] = v[i] <= T(0) ? T(0) : gi;
        }
      }
    });
  });
}

TANDEM_CPU_KERNEL(relu_forward, relu_forward_cpu);
TANDEM_CPU_KERNEL(relu_backward_data, relu_backward_data_cpu);

}  // namespace
}  // namespace tandem
