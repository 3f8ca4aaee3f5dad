/// Atomic operations. The threads of a kernel take turns, so each is a plain operation, reported as an atomic one.
#pragma once
#include <simgpu/builtins.h>

#include <cstddef>
#include <type_traits>

namespace simgpu {

void atomic_access(const void* p, size_t bytes, const void* return_address);

}  // namespace simgpu

// Functions of their own, so that messages name the line that calls them.
#define SIMGPU_ATOMIC_FUNCTION SIMGPU_UNCHECKED __attribute__((noinline)) inline

#define SIMGPU_ATOMIC(name, expression)                               \
  template <class T>                                                  \
  SIMGPU_ATOMIC_FUNCTION T name(T* p, std::type_identity_t<T> v) {    \
    simgpu::atomic_access(p, sizeof(T), __builtin_return_address(0)); \
    const T old = *p;                                                 \
    *p = static_cast<T>(expression);                                  \
    return old;                                                       \
  }
SIMGPU_ATOMIC(atomicAdd, old + v)
SIMGPU_ATOMIC(atomicSub, old - v)
SIMGPU_ATOMIC(atomicExch, v)
SIMGPU_ATOMIC(atomicMin, v < old ? v : old)
SIMGPU_ATOMIC(atomicMax, old < v ? v : old)
SIMGPU_ATOMIC(atomicAnd, old& v)
SIMGPU_ATOMIC(atomicOr, old | v)
SIMGPU_ATOMIC(atomicXor, old ^ v)
SIMGPU_ATOMIC(atomicInc, old >= v ? T(0) : old + 1)
SIMGPU_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
#undef SIMGPU_ATOMIC

template <class T>
SIMGPU_ATOMIC_FUNCTION T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  simgpu::atomic_access(p, sizeof(T), __builtin_return_address(0));
  const T old = *p;
  if (old == expected) *p = v;
  return old;
}
#undef SIMGPU_ATOMIC_FUNCTION
