/// Not installed: vectors of f32 as wide as the machine's registers, for kernels that keep sums in registers.
#pragma once
#include <type_traits>
#include <utility>

#if defined(__AVX512F__) || defined(__FMA__)
#  include <immintrin.h>
#endif

namespace tandem::detail {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32, kVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16, kVectorRegisters = 16;
#endif
inline constexpr int kLanes = kVectorBytes / int(sizeof(float));

// Unaligned in memory.
typedef float FloatVector __attribute__((vector_size(kVectorBytes), aligned(4)));

inline FloatVector load(const float* p) { return *reinterpret_cast<const FloatVector*>(p); }
inline void store(float* p, FloatVector v) { *reinterpret_cast<FloatVector*>(p) = v; }
inline FloatVector broadcast(float v) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(v);
#elif defined(__FMA__)
  return _mm256_set1_ps(v);
#else
  return FloatVector{} + v;
#endif
}

/// a * b + c, rounded once where the machine can.
inline FloatVector multiply_add(FloatVector a, FloatVector b, FloatVector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// f(0), f(1), ... f(N - 1) with constants for arguments: an array indexed by them lives in registers, where a loop's
/// would be kept in memory.
template <int N, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

}  // namespace tandem::detail
