/// Not installed: the loop of CPU kernels over two broadcast operands (see broadcast.h).
#pragma once
#include <tandem/core/node.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/compute.h>

#include <algorithm>
#include <type_traits>

namespace tandem::detail {

/// The result's dimensions from the outermost in memory to the innermost, neighbours merged where both operands run on.
struct BinaryNest {
  int n = 0;
  int64_t size[kMaxDims + 1], as[kMaxDims + 1], bs[kMaxDims + 1];

  BinaryNest(const Tensor& y, const Tensor& a, const Tensor& b) {
    const Dims &shape = y.shape(), &ap = a.strides(), &bp = b.strides();
    const bool channels_last = y.layout() == Layout::channels_last;
    constexpr int kChannelsLast[] = {0, 2, 3, 1};
    for (int k = 0; k < shape.size(); ++k) {
      const int d = channels_last ? kChannelsLast[k] : k;
      if (shape[d] == 1) continue;
      if (n && as[n - 1] == ap[d] * shape[d] && bs[n - 1] == bp[d] * shape[d]) {
        size[n - 1] *= shape[d];
        as[n - 1] = ap[d];
        bs[n - 1] = bp[d];
      } else {
        size[n] = shape[d];
        as[n] = ap[d];
        bs[n] = bp[d];
        ++n;
      }
    }
    if (!n) {
      n = 1;
      size[0] = as[0] = bs[0] = 1;
    }
  }
};

/// Calls f(y's offset, a's, b's, count, a's stride, b's stride) on runs that cover y; the strides are constants, 1 or
/// 0.
template <class F>
void for_runs(const Tensor& y, const Tensor& a, const Tensor& b, const F& f) {
  const BinaryNest d(y, a, b);
  auto with = [&](auto a_step, auto b_step) {
    tandem::parallel_for(y.numel(), kPointwiseGrain, [&](int64_t begin, int64_t end) {
      if (d.n == 1) return f(begin, begin * a_step, begin * b_step, end - begin, a_step, b_step);
      const int64_t inner = d.size[d.n - 1];
      int64_t index[kMaxDims], row = begin / inner, column = begin % inner, ao = 0, bo = 0;
      for (int i = d.n - 1; i--; row /= d.size[i]) {
        index[i] = row % d.size[i];
        ao += index[i] * d.as[i];
        bo += index[i] * d.bs[i];
      }
      while (begin < end) {
        const int64_t n = std::min(inner - column, end - begin);
        f(begin, ao + column * a_step, bo + column * b_step, n, a_step, b_step);
        begin += n;
        column = 0;
        for (int i = d.n - 1; i--;) {
          ao += d.as[i];
          bo += d.bs[i];
          if (++index[i] < d.size[i]) break;
          ao -= index[i] * d.as[i];
          bo -= index[i] * d.bs[i];
          index[i] = 0;
        }
      }
    });
  };
  using One = std::integral_constant<int64_t, 1>;
  using Zero = std::integral_constant<int64_t, 0>;
  if (y.numel() == 0) return;
  const int64_t as = d.as[d.n - 1], bs = d.bs[d.n - 1];
  if (as && bs) return with(One{}, One{});
  if (as) return with(One{}, Zero{});
  with(Zero{}, One{});  // one of them has the result's size in every dimension
}

/// y = op(a, b) in the elements' compute type; y's elements may have another type (comparisons).
template <class Y, class T, class Op>
void binary_loop(const Tensor& y, const Tensor& a, const Tensor& b, Op op) {
  Y* const yp = y.ptr<Y>();
  const T *const ap = a.ptr<T>(), *const bp = b.ptr<T>();
  for_runs(y, a, b, [=](int64_t yo, int64_t ao, int64_t bo, int64_t n, auto a_step, auto b_step) {
    Y* q = yp + yo;
    const T *p = ap + ao, *r = bp + bo;
    using C = Compute<T>;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) assign(q[i], op(C(p[i * a_step]), C(r[i * b_step])));
  });
}

/// y = beta * y + op(a, b).
template <class T, class Op>
void binary_loop_into(const Out& y, const Tensor& a, const Tensor& b, Op op) {
  if (y.beta == 0) return binary_loop<T, T>(y.t, a, b, op);
  T* const yp = y.t.ptr<T>();
  const T *const ap = a.ptr<T>(), *const bp = b.ptr<T>();
  for_runs(y.t, a, b, [=](int64_t yo, int64_t ao, int64_t bo, int64_t n, auto a_step, auto b_step) {
    T* q = yp + yo;
    const T *p = ap + ao, *r = bp + bo;
    using C = Compute<T>;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) assign(q[i], C(q[i]) + op(C(p[i * a_step]), C(r[i * b_step])));
  });
}

}  // namespace tandem::detail
