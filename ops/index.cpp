#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/index.h>
#include <tandem/ops/index_values.h>
#include <tandem/ops/slices.h>
#include <tandem/ops/widen.h>

#include <algorithm>
#include <cstring>

namespace tandem {

constexpr OpId kIndexSelect{"index_select"}, kGather{"gather"};

Tensor index_select(const Tensor& x_in, int dim_in, const Tensor& index_in) {
  auto [x, index] = enter(kIndexSelect, x_in, index_in);
  require_same_device("index_select", {&x, &index});
  check<ShapeError>(index.dim() <= 1, "[index_select] the index has one dimension, got shape ", index.shape());
  const int dim = wrap_dim("index_select", dim_in, x.dim());
  check<ShapeError>(x.dim() > 0 || index.numel() == 1, "[index_select] a scalar has one element, the index names ",
                    index.numel());
  Tensor which = detail::index_values("index_select", index);
  Dims shape = x.shape();
  if (x.dim()) shape[dim] = which.numel();
  Tensor dense = as_dense(x);
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device(), .layout = dense.layout()});
  index_select_forward(x.device(), y, dense, dim, which);
  return record("index_select", y, {x}, [dim, which = Saved("index_select", which)](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Out gx = t[0].out();
    index_select_backward_data(gy.device(), gx, as_layout(gy, gx.t.layout()), dim, which());
  });
}

Tensor gather(const Tensor& x_in, int dim_in, const Tensor& index_in) {
  auto [x, index] = enter(kGather, x_in, index_in);
  require_same_device("gather", {&x, &index});
  const int dim = wrap_dim("gather", dim_in, x.dim());
  bool fits = index.dim() == x.dim();
  for (int d = 0; fits && d < x.dim(); ++d) fits = d == dim || index.size(d) <= x.size(d);
  check<ShapeError>(fits, "[gather] an index of shape ", index.shape(), " does not fit ", x.shape(),
                    " along dimension ", dim);
  Tensor which = detail::index_values("gather", index);
  Tensor y = empty(index.shape(), {.dtype = x.dtype(), .device = x.device()});
  gather_forward(x.device(), y, as_layout(x, Layout::row_major), dim, which);
  return record("gather", y, {x}, [dim, which = Saved("gather", which)](Tensor& gy, Targets t) {
    if (!t[0]) return;
    in_layout(t[0].out(), Layout::row_major,
              [&](Out gx) { gather_backward_data(gy.device(), gx, as_layout(gy, Layout::row_major), dim, which()); });
  });
}

namespace {

constexpr int64_t kGrain = 1 << 14;

using detail::Slices;

void index_select_forward_cpu(Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  const Slices s(x, dim);
  detail::require_in_range(index, dim, s.size);
  const int64_t n = index.numel(), run = s.inner * int64_t(size_of(x.dtype()));
  if (y.numel() == 0) return;
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  const int64_t* which = index.ptr<int64_t>();
  parallel_for(s.outer * n, std::max<int64_t>(1, kGrain / s.inner), [&](int64_t a, int64_t b) {
    for (int64_t r = a; r < b; ++r)
      std::memcpy(to + r * run, from + (r / n * s.size + which[r % n]) * run, size_t(run));
  });
}

// Threads share the columns, the elements of a slice: each adds up its own in the order of the indices.
void index_select_backward_data_cpu(Out gx, const Tensor& gy, int dim, const Tensor& index) {
  const Slices s(gx.t, dim);
  const int64_t n = index.numel();
  dispatch_real("index_select", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    T* to = gx.t.ptr<T>();
    if (gx.beta == 0) std::fill_n(to, gx.t.numel(), T(0));
    const T* from = gy.ptr<T>();
    const int64_t* which = index.ptr<int64_t>();
    parallel_for(s.outer * s.inner, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n)), [=](int64_t a, int64_t b) {
      for (int64_t c = a; c < b;) {
        const int64_t o = c / s.inner, i = c % s.inner, run = std::min(s.inner - i, b - c);
        for (int64_t j = 0; j < n; ++j) {
          T* q = to + (o * s.size + which[j]) * s.inner + i;
          const T* p = from + (o * n + j) * s.inner + i;
#pragma omp simd
          for (int64_t k = 0; k < run; ++k) q[k] += p[k];
        }
        c += run;
      }
    });
  });
}

// Calls f(place in x, place in y) for each element of `index`, which has y's shape; both row-major. Elements that may
// name the same place in x, those that differ along dim alone, come in order and in one thread.
template <class F>
void for_each_picked(const Dims& x_shape, int dim, const Tensor& index, const F& f) {
  if (index.numel() == 0) return;
  const Dims& shape = index.shape();
  const Dims x_strides = dense_strides(x_shape, Layout::row_major);
  const int64_t* which = index.ptr<int64_t>();
  const int64_t n = shape.empty() ? 1 : shape[dim], step = shape.empty() ? 1 : x_strides[dim];
  const int64_t y_step = shape.empty() ? 1 : index.strides()[dim];
  parallel_for(index.numel() / n, std::max<int64_t>(1, kGrain / n), [=, &f](int64_t a, int64_t b) {
    for (int64_t c = a; c < b; ++c) {
      int64_t rest = c, x_at = 0, y_at = 0;
      for (int d = shape.size(); d--;) {
        if (d == dim) continue;
        const int64_t k = rest % shape[d];
        rest /= shape[d];
        x_at += k * x_strides[d];
        y_at += k * index.strides()[d];
      }
      for (int64_t j = 0; j < n; ++j) f(x_at + which[y_at + j * y_step] * step, y_at + j * y_step);
    }
  });
}

template <class T>
void pick(Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  const T* from = x.ptr<T>();
  T* to = y.ptr<T>();
  for_each_picked(x.shape(), dim, index, [=](int64_t x_at, int64_t y_at) { to[y_at] = from[x_at]; });
}

void gather_forward_cpu(Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  detail::require_in_range(index, dim, x.dim() ? x.size(dim) : 1);
  switch (size_of(x.dtype())) {
    case 8: return pick<uint64_t>(y, x, dim, index);
    case 4: return pick<uint32_t>(y, x, dim, index);
    case 2: return pick<uint16_t>(y, x, dim, index);
    default: return pick<uint8_t>(y, x, dim, index);
  }
}

void gather_backward_data_cpu(Out gx, const Tensor& gy, int dim, const Tensor& index) {
  dispatch_real("gather", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    T* to = gx.t.ptr<T>();
    if (gx.beta == 0) std::fill_n(to, gx.t.numel(), T(0));
    const T* from = gy.ptr<T>();
    for_each_picked(gx.t.shape(), dim, index, [=](int64_t x_at, int64_t y_at) { to[x_at] += from[y_at]; });
  });
}

TANDEM_KERNEL(index_select_forward, cpu, index_select_forward_cpu);
TANDEM_CPU_KERNEL(index_select_backward_data, index_select_backward_data_cpu);
TANDEM_KERNEL(gather_forward, cpu, gather_forward_cpu);
TANDEM_CPU_KERNEL(gather_backward_data, gather_backward_data_cpu);

}  // namespace
}  // namespace tandem
