// Copies: by bytes where both sides lie alike, else by strides (which know only the element's size) or by conversion
// (of dense memory); what needs both goes through scratch. Between kinds of device only bytes move: strides, dtypes and
// sums are the CUDA side's work where it can be, else the host's.
#include <tandem/cuda/convert.h>
#include <tandem/cuda/pointwise.h>
#include <tandem/cuda/strided_copy.h>
#include <tandem/ops/arithmetic.h>

namespace tandem::cuda_impl {
namespace {

struct Sum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return detail::plus(a, b);
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
      return strided_copy(y, sum);
    }
    if (alike && same_type) return add(y, x);
    Tensor converted = scratch(y, y.dtype(), y.device(), y.layout());
    copy({converted, 0}, x);
    return add(y, converted);
  }
  if (alike && same_type)
    return copy_bytes(y.raw(), y.device(), x.raw(), x.device(), size_t(x.numel()) * size_of(x.dtype()));
  if (same_type) return strided_copy(y, x);
  if (alike) return convert(y, x);
  if (y.is_dense_in_any_layout()) {
    Tensor moved = scratch(y, x.dtype(), y.device(), y.layout());
    strided_copy(moved, x);
    return convert(y, moved);
  }
  const Tensor dense = as_dense(x);
  Tensor converted = scratch(dense, y.dtype(), y.device(), dense.layout());
  convert(converted, dense);
  strided_copy(y, converted);
}

// As bits: one kernel for each size of element.
template <class T>
auto bits_of(double v) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
    return T(float(v)).bits;
  else if constexpr (sizeof(T) == 8)
    return std::bit_cast<uint64_t>(detail::number<T>(v));
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<uint32_t>(detail::number<T>(v));
  else
    return std::bit_cast<uint8_t>(detail::number<T>(v));
}

void fill(Tensor& y, double v) {
  if (y.numel() == 0) return;
  if (!y.is_dense_in_any_layout()) {
    Tensor one = empty({}, {.dtype = y.dtype(), .device = y.device()});
    fill(one, v);
    Dims none = y.shape();
    for (int d = 0; d < none.size(); ++d) none[d] = 0;
    return strided_copy(y, one.alias(y.shape(), none, 0));
  }
  On on(y);
  dispatch_all(y.dtype(), [&](auto t) {
    const auto bits = bits_of<decltype(t)>(v);
    using T = std::remove_const_t<decltype(bits)>;
    pointwise(on, Constant<T>{bits}, false, y.numel(), static_cast<T*>(y.raw()));
  });
}

TANDEM_KERNEL(copy_forward, cuda, copy);
TANDEM_KERNEL(fill_forward, cuda, fill);

}  // namespace
}  // namespace tandem::cuda_impl
