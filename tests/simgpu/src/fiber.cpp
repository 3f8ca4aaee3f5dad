#include "fiber.h"

#include <sys/mman.h>

#include "operation.h"

namespace simgpu {

// The registers that a call keeps, by the System V ABI; simgpu_switch is one for its caller.
asm(R"(
.text
.globl simgpu_switch
.type simgpu_switch,@function
simgpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simgpu_switch, .-simgpu_switch
)");

FiberStacks fiber_stacks{};

namespace {

constexpr size_t kGuardPage = 4096;
constexpr size_t kStride = kFiberStack + kGuardPage;  // the guard lies below its stack

void create_stacks() {
  constexpr size_t bytes = kStride * kFibers;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("no memory for the stacks of %d threads", kFibers);
  const auto begin = reinterpret_cast<uintptr_t>(p);
  for (int i = 0; i < kFibers; ++i)
    mprotect(reinterpret_cast<void*>(begin + kStride * size_t(i)), kGuardPage, PROT_NONE);
  fiber_stacks = {begin, bytes};
}

}  // namespace

void* fresh_fiber(int index, void (*entry)()) {
  if (!fiber_stacks.begin) create_stacks();
  // Tops differ in their offset: else the same frame of all threads falls on the same lines of the cache.
  const size_t colour = size_t(index) * 320 % 8192;
  auto** top =
      reinterpret_cast<void**>((fiber_stacks.begin + kStride * size_t(index + 1) - 64 - colour) & ~uintptr_t{15});
  *--top = nullptr;  // the return address of entry, and its alignment
  *--top = reinterpret_cast<void*>(entry);
  for (int r = 0; r < 6; ++r) *--top = nullptr;
  return top;
}

bool is_stack_guard(uintptr_t address) {
  const uintptr_t offset = address - fiber_stacks.begin;
  return offset < fiber_stacks.bytes && offset % kStride < kGuardPage;
}

}  // namespace simgpu
