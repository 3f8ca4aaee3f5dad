/// Not installed. Reductions among the threads of a warp or of a block. All of the group's threads call, and all get
/// the result; its order depends on the group's size alone, so it is the same in every run. Op is one of ops/fold.h's
/// (Sum, Max and Min, where NaN wins) or a type with an identity() and a combine() like theirs.
#pragma once
#include <tandem/cuda/launch.h>
#include <tandem/ops/fold.h>

#include <cstring>

namespace tandem::cuda_impl {

using detail::Max, detail::Min, detail::Sum;

inline constexpr int kWarp = 32;

/// The value of the lane whose number differs from this one's in `lanes`; T is trivially copyable.
template <class T>
__device__ T shuffle_xor(T v, int lanes) {
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4) {
    return __shfl_xor_sync(0xffffffffu, v, lanes);
  } else {
    static_assert(sizeof(T) % 4 == 0);
    unsigned words[sizeof(T) / 4];
    std::memcpy(words, &v, sizeof(T));
    for (unsigned& w : words) w = __shfl_xor_sync(0xffffffffu, w, lanes);
    std::memcpy(&v, words, sizeof(T));
    return v;
  }
}

/// Op over a warp's 32 values. Whole warps call.
template <class Op>
__device__ typename Op::Acc warp_reduce(typename Op::Acc v) {
  for (int lanes = kWarp / 2; lanes; lanes /= 2) v = Op::combine(v, shuffle_xor(v, lanes));
  return v;
}

/// Op over a block's values. Blocks have one dimension, a multiple of 32; the whole block calls.
template <class Op>
__device__ typename Op::Acc block_reduce(typename Op::Acc v) {
  using Acc = typename Op::Acc;
  __shared__ Acc of_warp[kWarp];
  const int lane = int(threadIdx.x) % kWarp, warps = int(blockDim.x) / kWarp;
  v = warp_reduce<Op>(v);
  __syncthreads();  // the last reduction's values have been read
  if (lane == 0) of_warp[threadIdx.x / kWarp] = v;
  __syncthreads();
  return warp_reduce<Op>(lane < warps ? of_warp[lane] : Op::identity());
}

template <class T>
__device__ T warp_sum(T v) {
  return warp_reduce<Sum<T>>(v);
}
template <class T>
__device__ T warp_max(T v) {
  return warp_reduce<Max<T>>(v);
}
template <class T>
__device__ T block_sum(T v) {
  return block_reduce<Sum<T>>(v);
}
template <class T>
__device__ T block_max(T v) {
  return block_reduce<Max<T>>(v);
}

}  // namespace tandem::cuda_impl
