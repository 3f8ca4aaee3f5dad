/// Not installed. What kernels compute in, and how elements get there and back: f16 and bf16 through float, by the
/// GPU's own conversions, rounded once.
#pragma once
#include <cuda_runtime.h>  // before the others: the simulator's lies over it

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <tandem/core/context.h>
#include <tandem/ops/compute.h>

namespace tandem::cuda_impl {

using detail::Compute;

/// Calls f(T{}) with the C++ type of a floating dtype.
template <class F>
void dispatch_float(Dtype t, F&& f) {
  detail::dispatch_floating(context().op, t, f);
}

/// An element in its compute type.
template <class T>
__device__ Compute<T> widen(T v) {
  if constexpr (std::is_same_v<T, f16>)
    return __half2float(__ushort_as_half(v.bits));
  else
    return Compute<T>(v);
}

/// v as an element of type T. (Inlined in any case: g++ does not report to the simulator what a call returns straight
/// into memory.)
template <class T, class C>
__device__ __forceinline__ T narrow(C v) {
  T element;
  if constexpr (std::is_same_v<T, f16>)
    element.bits = __half_as_ushort(__float2half_rn(v));
  else if constexpr (std::is_same_v<T, bf16>)
    element.bits = __bfloat16_as_ushort(__float2bfloat16_rn(v));
  else
    element = T(v);
  return element;
}

}  // namespace tandem::cuda_impl
