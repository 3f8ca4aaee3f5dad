// What code compiled with -fsanitize=thread calls for its accesses to memory: the thread sanitizer's interface, without
// the thread sanitizer. Only kernels are looked at; the host's code is let pass.
#include <cstddef>
#include <cstdint>

#include "access.h"
#include "shadow.h"

using namespace simgpu;

namespace {

template <class T>
T fetch_nand(volatile T* p, T v) {
  return __atomic_fetch_nand(p, v, __ATOMIC_SEQ_CST);
}

}  // namespace

#define SIMGPU_CHECK(check, p, bytes, kind)        \
  if (is_kernel_frame(__builtin_frame_address(0))) \
  check(reinterpret_cast<uintptr_t>(p), bytes, AccessKind::kind, __builtin_return_address(0))

extern "C" {

void __tsan_init() { checked = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define SIMGPU_HOOKS(bytes)                                                                           \
  void __tsan_read##bytes(void* p) { SIMGPU_CHECK(check_aligned_access, p, bytes, read); }            \
  void __tsan_write##bytes(void* p) { SIMGPU_CHECK(check_aligned_access, p, bytes, write); }          \
  void __tsan_unaligned_read##bytes(void* p) { SIMGPU_CHECK(check_access, p, bytes, read); }          \
  void __tsan_unaligned_write##bytes(void* p) { SIMGPU_CHECK(check_access, p, bytes, write); }        \
  void __tsan_volatile_read##bytes(void* p) { SIMGPU_CHECK(check_aligned_access, p, bytes, read); }   \
  void __tsan_volatile_write##bytes(void* p) { SIMGPU_CHECK(check_aligned_access, p, bytes, write); } \
  void __tsan_unaligned_volatile_read##bytes(void* p) { SIMGPU_CHECK(check_access, p, bytes, read); } \
  void __tsan_unaligned_volatile_write##bytes(void* p) { SIMGPU_CHECK(check_access, p, bytes, write); }
SIMGPU_HOOKS(1)
SIMGPU_HOOKS(2)
SIMGPU_HOOKS(4)
SIMGPU_HOOKS(8)
SIMGPU_HOOKS(16)

void __tsan_read_range(void* p, size_t bytes) { SIMGPU_CHECK(check_access, p, bytes, read); }
void __tsan_write_range(void* p, size_t bytes) { SIMGPU_CHECK(check_access, p, bytes, write); }
void __tsan_vptr_read(void** p) { SIMGPU_CHECK(check_access, p, sizeof(void*), read); }
void __tsan_vptr_update(void** p, void*) { SIMGPU_CHECK(check_access, p, sizeof(void*), write); }

// Atomic operations of host code: kernels have functions of their own (simgpu/atomics.h).
#define SIMGPU_ATOMIC_HOOKS(bits, T)                                                                                \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }           \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_and(volatile T* p, T v, int) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_or(volatile T* p, T v, int) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }   \
  T __tsan_atomic##bits##_fetch_xor(volatile T* p, T v, int) { return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_nand(volatile T* p, T v, int) { return fetch_nand(p, v); }                          \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T v, int, int) {                    \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }                                                                                                                 \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T v, int, int) {                      \
    return __atomic_compare_exchange_n(p, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                   \
  }                                                                                                                 \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T v, int, int) {                          \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
    return expected;                                                                                                \
  }
SIMGPU_ATOMIC_HOOKS(8, int8_t)
SIMGPU_ATOMIC_HOOKS(16, int16_t)
SIMGPU_ATOMIC_HOOKS(32, int32_t)
SIMGPU_ATOMIC_HOOKS(64, int64_t)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
