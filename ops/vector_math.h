/// Not installed: functions that compilers turn into vectors, and the set of them that CPU kernels give the formulas
/// they share with other devices (unary_formulas.h).
#pragma once
#include <tandem/ops/vector_exp.h>

namespace tandem::detail {

/// Between floats, both computed: g++ takes a choice for a branch that protects their computing, and gives up the loop.
inline float choose(bool first, float a, float b) {
  const uint32_t mask = first ? ~0u : 0u;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(a) & mask) | (std::bit_cast<uint32_t>(b) & ~mask));
}

inline double vector_tanh(double x) { return std::tanh(x); }
/// Within two units in the last place: a polynomial near 0 (Cephes tanhf), else by e^-2|x|, which can't overflow.
inline float vector_tanh(float x) {
  const float magnitude = std::abs(x), e = vector_exp(-2.f * magnitude), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  return std::copysign(choose(magnitude < 0.625f, p * z * magnitude + magnitude, (1.f - e) / (1.f + e)), x);
}

/// log(1 + z) for z in [0, 1], to 2 units in the last place: 2 artanh(z / (2 + z)), whose series ends early for s <=
/// 1/3.
inline float log1p_of_unit(float z) {
  const float s = z / (2.f + z), q = s * s;
  float p = 1.f / 17;
  p = p * q + 1.f / 15;
  p = p * q + 1.f / 13;
  p = p * q + 1.f / 11;
  p = p * q + 1.f / 9;
  p = p * q + 1.f / 7;
  p = p * q + 1.f / 5;
  p = p * q + 1.f / 3;
  return 2.f * s + 2.f * s * q * p;
}
inline double log1p_of_unit(double z) { return std::log1p(z); }

struct VectorMath {
  template <class T>
  static T exp(T x) {
    return vector_exp(x);
  }
  template <class T>
  static T tanh(T x) {
    return vector_tanh(x);
  }
  /// Of numbers from 0 to 1.
  template <class T>
  static T log1p(T x) {
    return log1p_of_unit(x);
  }
};

}  // namespace tandem::detail
