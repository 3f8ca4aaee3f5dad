/// Not installed: arithmetic of every type that elements are computed in, for the kernels of all devices. Integers wrap
/// around, as PyTorch's do: through unsigned, where that is defined. Bools are or-ed and and-ed.
#pragma once
#include <tandem/core/export.h>

#include <cstdint>
#include <type_traits>

namespace tandem::detail {

template <class C>
TANDEM_HOST_DEVICE constexpr C plus(C a, C b) {
  if constexpr (std::is_same_v<C, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<C>)
    return C(std::make_unsigned_t<C>(a) + std::make_unsigned_t<C>(b));
  else
    return a + b;
}

template <class C>
TANDEM_HOST_DEVICE constexpr C times(C a, C b) {
  if constexpr (std::is_same_v<C, bool>)
    return a && b;
  else if constexpr (std::is_integral_v<C>)
    return C(uint64_t(a) * uint64_t(b));
  else
    return a * b;
}

/// A number given as a double; a negative one wraps for u8.
template <class C>
constexpr C number(double v) {
  if constexpr (std::is_same_v<C, bool>)
    return v != 0;
  else if constexpr (std::is_integral_v<C>)
    return C(int64_t(v));
  else
    return C(v);
}

}  // namespace tandem::detail
