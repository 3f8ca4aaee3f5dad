/// The element types of the libraries, and the types that they compute in: f16 and bf16 in float, rounded once.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __F16C__
#  include <immintrin.h>
#endif

namespace simgpu {

enum class Element : uint8_t { f32, f64, f16, bf16 };

inline constexpr size_t bytes_of(Element e) { return e == Element::f64 ? 8 : e == Element::f32 ? 4 : 2; }

inline constexpr const char* name_of(Element e) {
  constexpr const char* names[] = {"f32", "f64", "f16", "bf16"};
  return names[int(e)];
}

/// What elements of type T are computed in.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline float value(float x) { return x; }
inline double value(double x) { return x; }
inline float value(__nv_bfloat16 x) {
  uint16_t low;
  std::memcpy(&low, &x, sizeof low);
  const uint32_t bits = uint32_t(low) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
inline float value(__half x) {
#ifdef __F16C__
  uint16_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return _cvtsh_ss(bits);
#else
  return __half2float(x);
#endif
}

/// To nearest, ties to even.
template <class T>
T rounded(Compute<T> x) {
  if constexpr (std::is_same_v<T, __half>) {
#ifdef __F16C__
    const uint16_t bits = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
    __half h;
    std::memcpy(static_cast<void*>(&h), &bits, sizeof bits);
    return h;
#else
    return __float2half_rn(x);
#endif
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

/// As tensor cores take float32: 10 bits of mantissa (to nearest, ties to even).
inline float to_tf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits = (bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// f(T()) for the type of such elements.
template <class F>
decltype(auto) with_element(Element e, F&& f) {
  switch (e) {
    case Element::f64: return f(double());
    case Element::f16: return f(__half());
    case Element::bf16: return f(__nv_bfloat16());
    case Element::f32: break;
  }
  return f(float());
}

}  // namespace simgpu
