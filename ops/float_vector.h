/// Not installed: vectors of f32 as wide as the machine's registers, for kernels that keep sums in registers.
#pragma once
#include <cstdint>

#if defined(__AVX512F__) || defined(__FMA__)
#  include <immintrin.h>
#endif

namespace tandem::detail {

#ifdef __AVX512F__
inline constexpr int kVectorBytes = 64, kVectorRegisters = 32;
#else
inline constexpr int kVectorBytes = 32, kVectorRegisters = 16;
#endif
inline constexpr int kLanes = kVectorBytes / int(sizeof(float));

// Unaligned in memory.
typedef float FloatVector __attribute__((vector_size(kVectorBytes), aligned(4)));

inline FloatVector load(const float* p) { return *reinterpret_cast<const FloatVector*>(p); }
inline void store(float* p, FloatVector v) { *reinterpret_cast<FloatVector*>(p) = v; }
inline FloatVector broadcast(float v) { return FloatVector{} + v; }

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

}  // namespace tandem::detail
