/// Not installed. Kernels that treat each element alone: y[i] = f(x0[i], x1[i], ...), over dense memory, 16 bytes a
/// thread and access. f computes in double for f64 and in float for every other floating type; results round once.
/// (Operands that were stretched to y's shape: broadcast.h.)
#pragma once
#include <tandem/cuda/compute.h>
#include <tandem/cuda/launch.h>
#include <tandem/cuda/runtime.h>

#include <algorithm>

namespace tandem::cuda_impl {

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

/// As many elements as make 16 bytes of the widest type.
template <class... T>
inline constexpr int kPack = 16 / int(std::max({sizeof(T)...}));

/// Whether a pack of N elements may lie here.
template <int N, class T>
bool fits_pack(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * N) == 0;
}

template <int N, class T>
__device__ Pack<T, N> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
template <int N, class T>
__device__ void store_pack(T* p, const Pack<T, N>& v) {
  *reinterpret_cast<Pack<T, N>*>(p) = v;
}

/// f(x...) as an element like `was`, which it is added to where `add`; integers are not added to.
template <class F, class Y, class... X>
__device__ __forceinline__ Y element(const F& f, bool add, Y was, X... x) {
  const auto v = f(widen(x)...);
  if constexpr (!std::is_integral_v<Y>)
    if (add) return narrow<Y>(widen(was) + Compute<Y>(v));
  return narrow<Y>(v);
}

/// The same for each element of packs.
template <class F, class Y, int N, class... X>
__device__ void apply(const F& f, bool add, Pack<Y, N>& y, const Pack<X, N>&... x) {
  for (int k = 0; k < N; ++k) y.v[k] = element(f, add, y.v[k], x.v[k]...);
}

// Each thread takes packs in turn, then elements after the last pack. No __restrict__: y may be one of the x.
template <class F, class Y, class... X>
__global__ void pointwise_kernel(F f, bool add, int64_t packs, int64_t n, Y* y, const X*... x) {
  constexpr int N = kPack<Y, X...>;
#pragma unroll 1
  for (int64_t i = first_index(); i < packs; i += index_step()) {
    Pack<Y, N> out{};
    if (add) out = load_pack<N>(y + i * N);
    apply(f, add, out, load_pack<N>(x + i * N)...);
    store_pack<N>(y + i * N, out);
  }
#pragma unroll 1
  for (int64_t i = packs * N + first_index(); i < n; i += index_step()) {
    Y was{};
    if (add) was = y[i];
    y[i] = element(f, add, was, x[i]...);
  }
}

/// y[0..n) = (y +) f(x...). f is a functor: trivially copyable, its operator() for the device.
template <class F, class Y, class... X>
void pointwise(cudaStream_t stream, F f, bool add, int64_t n, Y* y, const X*... x) {
  if (n == 0) return;
  constexpr int N = kPack<Y, X...>;
  const int64_t packs = fits_pack<N>(y) && (fits_pack<N>(x) && ...) ? n / N : 0;
  launch(stream, grid_for(packs ? packs : n), pointwise_kernel<F, Y, X...>, f, add, packs, n, y, x...);
}

}  // namespace tandem::cuda_impl
