/// Not installed. Kernels that treat each element alone: y[i] = f(x0[i], x1[i], ...), over dense memory, 16 bytes a
/// thread and access. f computes in double for f64 and in float for every other floating type; results round once.
#pragma once
#include <tandem/cuda/launch.h>
#include <tandem/cuda/runtime.h>

#include <algorithm>
#include <type_traits>

namespace tandem::cuda_impl {

/// What a type is computed in: f16 and bf16 in float, all others in themselves.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;

/// Calls f(T{}) with the C++ type of a floating dtype.
template <class F>
void dispatch_float(Dtype t, F&& f) {
  switch (t) {
    case Dtype::f32: return f(float{});
    case Dtype::f64: return f(double{});
    case Dtype::f16: return f(f16{});
    case Dtype::bf16: return f(bf16{});
    default: throw DtypeError(message("[", context().op, "] takes floating tensors on CUDA, got ", t));
  }
}

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

/// As many elements as make 16 bytes of the widest type.
template <class... T>
inline constexpr int kPack = 16 / int(std::max({sizeof(T)...}));

// Add: y is added to. No __restrict__: y may be one of the x.
template <bool Add, class F, class Y, class... X>
__global__ void pointwise_packed(F f, Y* y, int64_t packs, const X*... x) {
  constexpr int N = kPack<Y, X...>;
  for (int64_t i = first_index(); i < packs; i += index_step()) {
    Pack<Y, N> out;
    if constexpr (Add) out = reinterpret_cast<const Pack<Y, N>*>(y)[i];
    [&](const Pack<X, N>... in) {
      for (int k = 0; k < N; ++k) {
        const auto r = f(Compute<X>(in.v[k])...);
        if constexpr (Add)
          out.v[k] = Y(Compute<Y>(out.v[k]) + Compute<Y>(r));
        else
          out.v[k] = Y(r);
      }
    }(reinterpret_cast<const Pack<X, N>*>(x)[i]...);
    reinterpret_cast<Pack<Y, N>*>(y)[i] = out;
  }
}

template <bool Add, class F, class Y, class... X>
__global__ void pointwise_single(F f, Y* y, int64_t begin, int64_t end, const X*... x) {
  for (int64_t i = begin + first_index(); i < end; i += index_step()) {
    const auto r = f(Compute<X>(x[i])...);
    if constexpr (Add)
      y[i] = Y(Compute<Y>(y[i]) + Compute<Y>(r));
    else
      y[i] = Y(r);
  }
}

/// y[0..n) = (y +) f(x...). f is a functor: trivially copyable, its operator() for the device.
template <class F, class Y, class... X>
void pointwise(cudaStream_t stream, F f, bool add, int64_t n, Y* y, const X*... x) {
  if (n == 0) return;
  constexpr int N = kPack<Y, X...>;
  auto fits = [](const auto* p) { return reinterpret_cast<uintptr_t>(p) % (sizeof(*p) * N) == 0; };
  const int64_t packs = fits(y) && (fits(x) && ...) ? n / N : 0;
  auto run = [&](auto adds) {
    constexpr bool Add = decltype(adds)::value;
    if (packs) launch(stream, grid_for(packs), pointwise_packed<Add, F, Y, X...>, f, y, packs, x...);
    if (packs * N < n)
      launch(stream, grid_for(n - packs * N), pointwise_single<Add, F, Y, X...>, f, y, packs * N, n, x...);
  };
  if (add)
    run(std::true_type{});
  else
    run(std::false_type{});
}

}  // namespace tandem::cuda_impl
