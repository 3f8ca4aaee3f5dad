/// Element types. f16 and bf16 are our own storage types with conversions that round once, to nearest even.
#pragma once
#include <tandem/core/error.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tandem {

enum class Dtype : uint8_t { f32, f64, f16, bf16, i64, i32, u8, boolean };

struct f16 {
  uint16_t bits = 0;
  f16() = default;
  TANDEM_HOST_DEVICE explicit f16(float v) : bits(from_float(v)) {}
  TANDEM_HOST_DEVICE operator float() const { return to_float(bits); }

  TANDEM_HOST_DEVICE static uint16_t from_float(float v) {
    uint32_t u = std::bit_cast<uint32_t>(v);
    uint32_t sign = u >> 16 & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return uint16_t(sign | 0x7e00u);   // NaN
    if (u >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and above round to inf
    if (u < 0x38800000u) {                                  // below 2^-14: subnormal
      float magic = std::bit_cast<float>(u) + 0.5f;         // the adder rounds to a multiple of 2^-24
      return uint16_t(sign | (std::bit_cast<uint32_t>(magic) - 0x3f000000u));
    }
    return uint16_t(sign | (u - 0x38000000u + 0xfffu + (u >> 13 & 1)) >> 13);
  }
  TANDEM_HOST_DEVICE static float to_float(uint16_t h) {
    uint32_t sign = uint32_t(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) {  // zero or subnormal: rest * 2^-24, exact
      float v = float(rest) * 5.9604644775390625e-8f;
      return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(v));
    }
    return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  }
};

struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  TANDEM_HOST_DEVICE explicit bf16(float v) : bits(from_float(v)) {}
  TANDEM_HOST_DEVICE operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }

  TANDEM_HOST_DEVICE static uint16_t from_float(float v) {
    uint32_t u = std::bit_cast<uint32_t>(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t(u >> 16 | 0x40u);  // NaN stays NaN
    return uint16_t((u + 0x7fffu + (u >> 16 & 1)) >> 16);
  }
};

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::f64;
};
template <>
struct DtypeOf<f16> {
  static constexpr Dtype value = Dtype::f16;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<int64_t> {
  static constexpr Dtype value = Dtype::i64;
};
template <>
struct DtypeOf<int32_t> {
  static constexpr Dtype value = Dtype::i32;
};
template <>
struct DtypeOf<uint8_t> {
  static constexpr Dtype value = Dtype::u8;
};
template <>
struct DtypeOf<bool> {
  static constexpr Dtype value = Dtype::boolean;
};
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

constexpr size_t size_of(Dtype t) {
  switch (t) {
    case Dtype::f64:
    case Dtype::i64: return 8;
    case Dtype::f32:
    case Dtype::i32: return 4;
    case Dtype::f16:
    case Dtype::bf16: return 2;
    case Dtype::u8:
    case Dtype::boolean: return 1;
  }
  return 0;
}
constexpr bool is_floating(Dtype t) { return t <= Dtype::bf16; }
constexpr bool is_half(Dtype t) { return t == Dtype::f16 || t == Dtype::bf16; }

/// "f32", "bf16", "i64", "bool", ...
TANDEM_API std::string to_string(Dtype);
/// The inverse of to_string; also takes PyTorch's names ("float32", "half", ...). Throws DtypeError.
TANDEM_API Dtype parse_dtype(std::string_view);

/// What an op of two tensors computes in (torch.promote_types): bool < u8 < i32 < i64 < f16, bf16 < f32 < f64;
/// f16 with bf16 is f32.
TANDEM_API Dtype promote(Dtype, Dtype);

/// Calls f(T{}) with the C++ type of a floating dtype that kernels compute in, float or double.
template <class F>
decltype(auto) dispatch_real(const char* op, Dtype t, F&& f) {
  if (t == Dtype::f32) return f(float{});
  if (t == Dtype::f64) return f(double{});
  throw DtypeError(message("[", op, "] takes f32 or f64 here, got ", t));
}
/// Calls f(T{}) with the C++ type of any dtype.
template <class F>
decltype(auto) dispatch_all(Dtype t, F&& f) {
  switch (t) {
    case Dtype::f32: return f(float{});
    case Dtype::f64: return f(double{});
    case Dtype::f16: return f(f16{});
    case Dtype::bf16: return f(bf16{});
    case Dtype::i64: return f(int64_t{});
    case Dtype::i32: return f(int32_t{});
    case Dtype::u8: return f(uint8_t{});
    case Dtype::boolean: break;
  }
  return f(bool{});
}

}  // namespace tandem
