/// Stacks for the threads of a block, and the switch from one to the other (ucontext's costs 1.2 µs, this one 10 ns).
#pragma once
#include <cstddef>
#include <cstdint>

namespace simgpu {

inline constexpr size_t kFiberStack = 64 * 1024;
inline constexpr int kFibers = 1024;  // the most threads of a block

/// Saves where this stack stands in *from, and goes on where `to` was saved.
extern "C" void simgpu_switch(void** from, void* to);

/// Where stack number `index` stands before it has run: simgpu_switch to it calls entry, which never returns.
void* fresh_fiber(int index, void (*entry)());

/// [begin, begin + bytes) of all stacks and the closed pages between them; begin is 0 before the first use.
struct FiberStacks {
  uintptr_t begin;
  size_t bytes;
};
extern FiberStacks fiber_stacks;

bool is_stack_guard(uintptr_t address);

}  // namespace simgpu
