/// Not installed: exp that compilers turn into vectors, the same bits alone as in a vector (the C library's is a call
/// per element).
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tandem::detail {

/// e^x within one unit in the last place; infinities, subnormal results and NaN as std::exp has them.
inline float vector_exp(float x) {
  // x = n ln2 + r with |r| <= ln2 / 2: e^r by a polynomial (Cephes expf), 2^n in two halves, as 2^-149 and 2^128 are no
  // normal floats. Choices are made on bits: g++ takes choices between floats for branches and gives up on the loop.
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const uint32_t nan = magnitude > 0x7f800000u ? 0x7fc00000u : 0u;
  const uint32_t enough = std::bit_cast<uint32_t>(104.f);  // e^-104 rounds to 0, e^104 to infinity
  x = std::bit_cast<float>((bits & 0x80000000u) | std::min(magnitude, enough));
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it leaves the integer in the low bits
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = x - n * 0.693359375f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  const auto k = int32_t(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound)), half = k >> 1;
  auto power = [](int32_t e) { return std::bit_cast<float>(uint32_t(e + 127) << 23); };
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p * power(half) * power(k - half)) | nan);
}
inline double vector_exp(double x) { return std::exp(x); }

}  // namespace tandem::detail
