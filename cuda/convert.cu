#include <tandem/cuda/convert.h>
#include <tandem/cuda/pointwise.h>

namespace tandem::cuda_impl {
namespace {

struct Cast {
  template <class C>
  __device__ C operator()(C v) const {
    return v;
  }
};

// Any pair of types, an element at a time: floats pass through f64 and integers through i64, which hold them exactly.

template <class T, class V>
__device__ void store(void* y, int64_t i, V v) {
  T* to = static_cast<T*>(y) + i;
  if constexpr (std::is_same_v<T, bool>)
    *to = v != V(0);
  else if constexpr (std::is_integral_v<T>)
    *to = static_cast<T>(static_cast<int64_t>(v));
  else
    *to = narrow<T>(static_cast<Compute<T>>(v));
}

template <class V>
__device__ void store_as(Dtype t, void* y, int64_t i, V v) {
  switch (t) {
    case Dtype::f32: return store<float>(y, i, v);
    case Dtype::f64: return store<double>(y, i, v);
    case Dtype::f16: return store<f16>(y, i, v);
    case Dtype::bf16: return store<bf16>(y, i, v);
    case Dtype::i64: return store<int64_t>(y, i, v);
    case Dtype::i32: return store<int32_t>(y, i, v);
    case Dtype::u8: return store<uint8_t>(y, i, v);
    case Dtype::boolean: return store<bool>(y, i, v);
  }
}

template <class T>
__device__ auto load(const void* x, int64_t i) {
  return widen(static_cast<const T*>(x)[i]);
}

__device__ double load_float(Dtype t, const void* x, int64_t i) {
  switch (t) {
    case Dtype::f64: return load<double>(x, i);
    case Dtype::f16: return load<f16>(x, i);
    case Dtype::bf16: return load<bf16>(x, i);
    default: return load<float>(x, i);
  }
}

__device__ int64_t load_integer(Dtype t, const void* x, int64_t i) {
  switch (t) {
    case Dtype::i64: return load<int64_t>(x, i);
    case Dtype::i32: return load<int32_t>(x, i);
    case Dtype::boolean: return load<bool>(x, i);
    default: return load<uint8_t>(x, i);
  }
}

__global__ void convert_any_kernel(int64_t n, Dtype to, void* y, Dtype from, const void* x) {
  for (int64_t i = first_index(); i < n; i += index_step())
    if (is_floating(from))
      store_as(to, y, i, load_float(from, x, i));
    else
      store_as(to, y, i, load_integer(from, x, i));
}

}  // namespace

void convert(const Tensor& y, const Tensor& x) {
  On on(y);
  const int64_t n = x.numel();
  if (n == 0) return;
  auto between = [&](auto to, auto from) {
    using To = decltype(to);
    using From = decltype(from);
    pointwise(on, Cast{}, false, n, y.ptr<To>(), static_cast<const From*>(x.ptr<From>()));
  };
  // What mixed precision converts at every step, by packs.
  const Dtype from = x.dtype(), to = y.dtype();
  if (from == Dtype::f32 && to == Dtype::bf16) return between(bf16{}, float{});
  if (from == Dtype::f32 && to == Dtype::f16) return between(f16{}, float{});
  if (from == Dtype::bf16 && to == Dtype::f32) return between(float{}, bf16{});
  if (from == Dtype::f16 && to == Dtype::f32) return between(float{}, f16{});
  launch(on, grid_for(n), convert_any_kernel, n, to, y.raw(), from, static_cast<const void*>(x.raw()));
}

}  // namespace tandem::cuda_impl
