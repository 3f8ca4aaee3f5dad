/// Barriers, fences, and what the threads of a warp do together.
#pragma once
#include <simgpu/builtins.h>

#include <cstdint>
#include <cstring>
#include <source_location>

namespace simgpu {

using Location = std::source_location;

enum class BlockReduction { none, count, all, any };
/// The block's barrier; what its threads' predicates come to.
int block_barrier(BlockReduction reduction, bool predicate, const Location& where);

enum class Collective { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot };
uint64_t warp_collective(Collective kind, unsigned mask, uint64_t value, int argument, int width,
                         const Location& where);

void fence();
void join_blocks(const Location& where);

template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace simgpu

inline void __syncthreads(const simgpu::Location& l = simgpu::Location::current()) {
  simgpu::block_barrier(simgpu::BlockReduction::none, false, l);
}
inline int __syncthreads_count(int p, const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::block_barrier(simgpu::BlockReduction::count, p != 0, l);
}
inline int __syncthreads_and(int p, const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::block_barrier(simgpu::BlockReduction::all, p != 0, l);
}
inline int __syncthreads_or(int p, const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::block_barrier(simgpu::BlockReduction::any, p != 0, l);
}

inline void __threadfence() { simgpu::fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { simgpu::fence(); }

/// Said by the block that a counter told to be the last of the grid, before it reads what the others wrote: the
/// simulator then knows that the order is meant, and checks that it holds (all others have ended, each having passed a
/// __threadfence). The launch header defines it empty for real GPUs.
inline void simgpu_join_blocks(const simgpu::Location& l = simgpu::Location::current()) { simgpu::join_blocks(l); }

inline void __syncwarp(unsigned mask = 0xffffffffu, const simgpu::Location& l = simgpu::Location::current()) {
  simgpu::warp_collective(simgpu::Collective::sync, mask, 0, 0, 32, l);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::from_bits<T>(
      simgpu::warp_collective(simgpu::Collective::shuffle, mask, simgpu::to_bits(value), lane, width, l));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::from_bits<T>(
      simgpu::warp_collective(simgpu::Collective::shuffle_up, mask, simgpu::to_bits(value), int(delta), width, l));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::from_bits<T>(
      simgpu::warp_collective(simgpu::Collective::shuffle_down, mask, simgpu::to_bits(value), int(delta), width, l));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  const simgpu::Location& l = simgpu::Location::current()) {
  return simgpu::from_bits<T>(
      simgpu::warp_collective(simgpu::Collective::shuffle_xor, mask, simgpu::to_bits(value), lanes, width, l));
}
inline unsigned __ballot_sync(unsigned mask, int p, const simgpu::Location& l = simgpu::Location::current()) {
  return unsigned(simgpu::warp_collective(simgpu::Collective::ballot, mask, p != 0, 0, 32, l));
}
inline int __any_sync(unsigned mask, int p, const simgpu::Location& l = simgpu::Location::current()) {
  return __ballot_sync(mask, p, l) != 0;
}
inline int __all_sync(unsigned mask, int p, const simgpu::Location& l = simgpu::Location::current()) {
  return __ballot_sync(mask, p, l) == mask;
}
