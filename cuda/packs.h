/// Not installed. Memory in packs of 16 bytes: kernels read and write neighbouring elements together where the rows
/// they work on allow it, and one by one where they do not.
#pragma once
#include <tandem/cuda/pointwise.h>

namespace tandem::cuda_impl {

/// N neighbouring elements, which lie at a multiple of their size.
template <int N, class T>
__device__ Pack<T, N> load(const T* p) {
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
template <class T, int N>
__device__ void store(T* p, const Pack<T, N>& v) {
  *reinterpret_cast<Pack<T, N>*>(p) = v;
}

/// f(N), as an integral_constant: how many elements of a row of `cols` go into a pack, 1 where rows or addresses do not
/// lie at multiples of whole packs.
template <class... T, class F>
void with_packs(int64_t cols, F&& f, const T*... p) {
  constexpr int N = kPack<T...>;
  if (cols % N == 0 && ((reinterpret_cast<uintptr_t>(p) % (sizeof(T) * N) == 0) && ...))
    f(std::integral_constant<int, N>{});
  else
    f(std::integral_constant<int, 1>{});
}

}  // namespace tandem::cuda_impl
