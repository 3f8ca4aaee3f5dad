/// Not installed: what CPU kernels of pointwise ops compute in.
#pragma once
#include <tandem/core/dtype.h>

#include <type_traits>

namespace tandem::detail {

/// The type a dtype is computed in: half precision in float, rounded once.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;

/// y = v, rounded where T is half precision. Under `omp simd` g++ keeps a temporary object per lane in memory and gives
/// up the loop: for bf16, whose rounding it can vectorise, there is none here.
template <class T, class C>
void assign(T& y, C v) {
  if constexpr (std::is_same_v<T, bf16>)
    y.bits = bf16::from_float(v);
  else
    y = T(v);
}

/// Elements below which a loop is not worth forking for.
inline constexpr int64_t kPointwiseGrain = 1 << 14;

/// Calls f(T{}) with the C++ type of any floating dtype. Throws DtypeError for others.
template <class F>
void dispatch_floating(const char* op, Dtype t, F&& f) {
  if (t == Dtype::f16) return f(f16{});
  if (t == Dtype::bf16) return f(bf16{});
  dispatch_real(op, t, f);
}

}  // namespace tandem::detail
