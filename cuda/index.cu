// What is picked more than once adds up in the order of the indices, without atomics (cuda/scatter.h).
#include <tandem/cuda/range_check.h>
#include <tandem/cuda/rows.h>
#include <tandem/cuda/scatter.h>
#include <tandem/ops/index.h>
#include <tandem/ops/slices.h>

namespace tandem::cuda_impl {
namespace {

using detail::Slices;

// Runs of `inner` elements, which are as many bytes as go at once. An index out of range picks zeros.
template <class Unit>
__global__ void select_kernel(Unit* y, const Unit* x, const int64_t* index, int64_t n, Slices s, RangeCheck in_range) {
  for (int64_t k = first_index(); k < s.outer * n * s.inner; k += index_step()) {
    const int64_t run = k / s.inner, j = run % n, from = index[j];
    y[k] = in_range(from, j) ? x[(run / n * s.size + from) * s.inner + k % s.inner] : Unit{};
  }
}

void index_select_forward_cuda(Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  Slices s(x, dim);
  const int64_t n = index.numel();
  if (s.outer * n * s.inner == 0) return;
  On on(y);
  const RangeCheck in_range(x.device(), RangeOf::dimension, s.size, dim);
  const int64_t bytes = s.inner * int64_t(size_of(x.dtype()));
  auto run = [&](auto unit) {
    using Unit = decltype(unit);
    s.inner = bytes / int64_t(sizeof(Unit));
    launch(on, grid_for(s.outer * n * s.inner), select_kernel<Unit>, static_cast<Unit*>(y.raw()),
           static_cast<const Unit*>(x.raw()), index.ptr<int64_t>(), n, s, in_range);
  };
  auto in_units_of = [&](int64_t size) {
    return bytes % size == 0 && reinterpret_cast<uintptr_t>(x.raw()) % uintptr_t(size) == 0 &&
           reinterpret_cast<uintptr_t>(y.raw()) % uintptr_t(size) == 0;
  };
  if (in_units_of(16)) return run(uint4{});
  if (in_units_of(8)) return run(uint64_t{});
  if (in_units_of(4)) return run(uint32_t{});
  if (in_units_of(2)) return run(uint16_t{});
  run(uint8_t{});
}

void zero_unless_added_to(const Out& o) {
  if (o.beta == 0 && o.t.numel()) zero_bytes(o.t.raw(), o.t.device(), size_t(o.t.numel()) * size_of(o.t.dtype()));
}

// gx's slice at each place takes the sum of gy's slices that go there; the first of them is who adds.
template <class T>
__global__ void add_sorted_kernel(T* gx, const T* gy, const uint64_t* keys, int64_t n, int shift, Slices s) {
  const int64_t columns = s.outer * s.inner;
  for (int64_t k = first_index(); k < n * columns; k += index_step()) {
    const int64_t first = k / columns, o = k % columns / s.inner, i = k % columns % s.inner;
    if (keys[first] == SortedSources::kNowhere) continue;
    const auto place = int64_t(keys[first] >> shift);
    if (first > 0 && int64_t(keys[first - 1] >> shift) == place) continue;
    Compute<T> sum = 0;
    for (int64_t q = first; q < n && int64_t(keys[q] >> shift) == place; ++q) {
      const auto source = int64_t(keys[q] & ((uint64_t(1) << shift) - 1));
      sum += Compute<T>(gy[(o * n + source) * s.inner + i]);
    }
    store(gx[(o * s.size + place) * s.inner + i], true, sum);
  }
}

void add_sorted(const Out& gx, const Tensor& gy, const Tensor& place, const Slices& s) {
  const SortedSources sources = sort_sources(place, s.size);
  zero_unless_added_to(gx);
  if (gy.numel() == 0) return;
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    launch(on, grid_for(gy.numel()), add_sorted_kernel<T>, gx.t.ptr<T>(), gy.ptr<T>(),
           static_cast<const uint64_t*>(sources.keys.raw()), sources.n, sources.shift, s);
  });
}

void index_select_backward_data_cuda(Out gx, const Tensor& gy, int dim, const Tensor& index) {
  add_sorted(gx, gy, index, Slices(gx.t, dim));
}

// -- gather -------------------------------------------------------------------------------------------------------

// Where in x the element of y with this row-major number comes from.
struct Picked {
  int dims, dim;
  int64_t size[kMaxDims], x_stride[kMaxDims];  // size: of the index, and of y
  const int64_t* index;

  Picked(const Dims& x_shape, int along, const Tensor& which)
      : dims(which.dim()), dim(along), index(which.ptr<int64_t>()) {
    const Dims strides = dense_strides(x_shape, Layout::row_major);
    for (int d = 0; d < dims; ++d) {
      size[d] = which.shape()[d];
      x_stride[d] = strides[d];
    }
  }
  // The index being `picked`.
  __device__ int64_t place(int64_t number, int64_t picked) const {
    int64_t at = 0;
    for (int d = dims; d--;) {
      at += (d == dim ? picked : number % size[d]) * x_stride[d];
      number /= size[d];
    }
    return at;
  }
};

template <class Unit>
__global__ void gather_kernel(Unit* y, const Unit* x, int64_t n, Picked p, RangeCheck in_range) {
  for (int64_t k = first_index(); k < n; k += index_step()) {
    const int64_t picked = p.index[k];
    y[k] = in_range(picked, k) ? x[p.place(k, picked)] : Unit{};
  }
}

void gather_forward_cuda(Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  const int64_t n = index.numel();
  if (n == 0) return;
  On on(y);
  const Picked picked(x.shape(), dim, index);
  const RangeCheck in_range(x.device(), RangeOf::dimension, x.dim() ? x.size(dim) : 1, dim);
  auto run = [&](auto unit) {
    using Unit = decltype(unit);
    launch(on, grid_for(n), gather_kernel<Unit>, static_cast<Unit*>(y.raw()), static_cast<const Unit*>(x.raw()), n,
           picked, in_range);
  };
  switch (size_of(x.dtype())) {
    case 8: return run(uint64_t{});
    case 4: return run(uint32_t{});
    case 2: return run(uint16_t{});
    default: return run(uint8_t{});
  }
}

// Where no place is named twice.
template <class T>
__global__ void add_picked_kernel(T* gx, const T* gy, int64_t n, Picked p, int64_t size) {
  for (int64_t k = first_index(); k < n; k += index_step())
    if (const int64_t picked = p.index[k]; uint64_t(picked) < uint64_t(size))
      store(gx[p.place(k, picked)], true, Compute<T>(gy[k]));
}

__global__ void places_kernel(int64_t* place, int64_t n, Picked p, int64_t size) {
  for (int64_t k = first_index(); k < n; k += index_step()) {
    const int64_t picked = p.index[k];
    place[k] = uint64_t(picked) < uint64_t(size) ? p.place(k, picked) : -1;
  }
}

void gather_backward_data_cuda(Out gx, const Tensor& gy, int dim, const Tensor& index) {
  const int64_t n = index.numel();
  if (n == 0) return zero_unless_added_to(gx);
  On on(gy);
  const Picked picked(gx.t.shape(), dim, index);
  const int64_t size = gx.t.dim() ? gx.t.size(dim) : 1;
  if (index.dim() == 0 || index.size(dim) == 1) {
    zero_unless_added_to(gx);
    return dispatch_float(gy.dtype(), [&](auto t) {
      using T = decltype(t);
      launch(on, grid_for(n), add_picked_kernel<T>, gx.t.ptr<T>(), gy.ptr<T>(), n, picked, size);
    });
  }
  const Tensor place = empty({n}, {.dtype = Dtype::i64, .device = gy.device()});
  launch(on, grid_for(n), places_kernel, place.ptr<int64_t>(), n, picked, size);
  Slices elements(place, 0);
  elements.size = gx.t.numel();
  add_sorted(gx, gy, place, elements);
}

TANDEM_KERNEL(index_select_forward, cuda, index_select_forward_cuda);
TANDEM_KERNEL(index_select_backward_data, cuda, index_select_backward_data_cuda);
TANDEM_KERNEL(gather_forward, cuda, gather_forward_cuda);
TANDEM_KERNEL(gather_backward_data, cuda, gather_backward_data_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
