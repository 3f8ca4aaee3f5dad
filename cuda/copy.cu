// Copies: by bytes where both sides lie alike, else by strides (which know only the element's size) or by conversion
// (of dense memory); what needs both goes through scratch. Between kinds of device only bytes move: strides, dtypes and
// sums are the CUDA side's work where it can be, else the host's.
#include <tandem/cuda/pointwise.h>

namespace tandem::cuda_impl {
namespace {

struct Strides {
  int dims;
  int64_t size[kMaxDims], x[kMaxDims], y[kMaxDims];
};

template <class T>
__global__ void strided(T* y, const T* x, int64_t n, Strides s) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = s.dims - 1; d >= 0; --d) {
      const int64_t at = rest % s.size[d];
      rest /= s.size[d];
      from += at * s.x[d];
      to += at * s.y[d];
    }
    y[to] = x[from];
  }
}

template <class To, class From>
struct Convert {
  __device__ To operator()(Compute<From> v) const {
    if constexpr (std::is_same_v<To, bool>)
      return v != Compute<From>(0);
    else if constexpr (std::is_same_v<To, f16> || std::is_same_v<To, bf16>)
      return To(static_cast<float>(v));
    else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<Compute<From>>)
      return static_cast<To>(static_cast<int64_t>(v));
    else
      return static_cast<To>(v);
  }
};

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, bool>)
      return a || b;
    else
      return T(a + b);
  }
};

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

bool lie_alike(const Tensor& a, const Tensor& b) {
  return a.strides() == b.strides() && a.is_dense_in_any_layout() && b.is_dense_in_any_layout();
}

// Any strides, one dtype and device.
void by_strides(const Tensor& y, const Tensor& x) {
  On on(y);
  Strides s{};
  s.dims = x.dim();
  for (int d = 0; d < s.dims; ++d) {
    s.size[d] = x.size(d);
    s.x[d] = x.strides()[d];
    s.y[d] = y.strides()[d];
  }
  auto run = [&](auto t) {
    using T = decltype(t);
    launch(on, grid_for(x.numel()), strided<T>, static_cast<T*>(y.raw()), static_cast<const T*>(x.raw()), x.numel(), s);
  };
  switch (size_of(x.dtype())) {
    case 8: return run(uint64_t{});
    case 4: return run(uint32_t{});
    case 2: return run(uint16_t{});
    default: return run(uint8_t{});
  }
}

// y = x of another dtype; both dense in one layout.
void convert(const Tensor& y, const Tensor& x) {
  On on(y);
  dispatch_all(y.dtype(), [&](auto to) {
    dispatch_all(x.dtype(), [&](auto from) {
      using To = decltype(to);
      using From = decltype(from);
      pointwise(on, Convert<To, From>{}, false, x.numel(), static_cast<To*>(y.raw()),
                static_cast<const From*>(x.raw()));
    });
  });
}

// y += x of the same dtype; both dense in one layout.
void add(const Tensor& y, const Tensor& x) {
  On on(y);
  dispatch_all(y.dtype(), [&](auto t) {
    using T = decltype(t);
    pointwise(on, Sum{}, false, x.numel(), static_cast<T*>(y.raw()), static_cast<const T*>(y.raw()),
              static_cast<const T*>(x.raw()));
  });
}

// A dense tensor like `like`, of this dtype and device.
Tensor scratch(const Tensor& like, Dtype t, Device d, Layout l) {
  return empty(like.shape(), {.dtype = t, .device = d, .layout = l});
}

void copy(Out out, const Tensor& x) {
  Tensor& y = out.t;
  if (x.numel() == 0) return;
  if (y.device() != x.device()) {  // bytes, after what the source can do and before what the destination has to
    const Tensor dense = as_dense(x);
    if (!out.beta && y.dtype() == dense.dtype() && lie_alike(y, dense))
      return copy_bytes(y.raw(), y.device(), dense.raw(), x.device(), size_t(x.numel()) * size_of(x.dtype()));
    Tensor here = scratch(dense, x.dtype(), y.device(), dense.layout());
    copy_bytes(here.raw(), y.device(), dense.raw(), x.device(), size_t(x.numel()) * size_of(x.dtype()));
    return copy_into(out, here);
  }
  const bool alike = lie_alike(y, x), same_type = x.dtype() == y.dtype();
  if (out.beta) {
    if (!y.is_dense_in_any_layout()) {
      Tensor sum = as_dense(y);
      copy({sum, 1}, x);
      return by_strides(y, sum);
    }
    if (alike && same_type) return add(y, x);
    Tensor converted = scratch(y, y.dtype(), y.device(), y.layout());
    copy({converted, 0}, x);
    return add(y, converted);
  }
  if (alike && same_type)
    return copy_bytes(y.raw(), y.device(), x.raw(), x.device(), size_t(x.numel()) * size_of(x.dtype()));
  if (same_type) return by_strides(y, x);
  if (alike) return convert(y, x);
  if (y.is_dense_in_any_layout()) {
    Tensor moved = scratch(y, x.dtype(), y.device(), y.layout());
    by_strides(moved, x);
    return convert(y, moved);
  }
  const Tensor dense = as_dense(x);
  Tensor converted = scratch(dense, y.dtype(), y.device(), dense.layout());
  convert(converted, dense);
  by_strides(y, converted);
}

void fill(Tensor& y, double v) {
  if (y.numel() == 0) return;
  On on(y);
  dispatch_all(y.dtype(), [&](auto t) {
    using T = decltype(t);
    T value;
    if constexpr (std::is_same_v<T, bool>)
      value = v != 0;
    else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
      value = T(float(v));
    else
      value = static_cast<T>(v);
    if (y.is_dense_in_any_layout())
      return pointwise(on, Constant<T>{value}, false, y.numel(), static_cast<T*>(y.raw()));
    Tensor dense = scratch(y, y.dtype(), y.device(), Layout::row_major);
    pointwise(on, Constant<T>{value}, false, y.numel(), static_cast<T*>(dense.raw()));
    by_strides(y, dense);
  });
}

TANDEM_KERNEL(copy_forward, cuda, copy);
TANDEM_KERNEL(fill_forward, cuda, fill);

}  // namespace
}  // namespace tandem::cuda_impl
