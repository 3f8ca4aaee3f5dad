#include "fault_handler.h"

#include <signal.h>
#include <stdlib.h>

#include "allocations.h"
#include "arena.h"
#include "block.h"
#include "executor.h"
#include "fiber.h"
#include "operation.h"
#include "pinned.h"

namespace simgpu {
namespace {

constexpr size_t kHandlerStack = 64 * 1024;

struct sigaction found;  // the handler before ours

void explain_arena_fault(uintptr_t address) {
  const auto* p = reinterpret_cast<void*>(address);
  const Allocation* a = find_allocation(address);
  if (!a) fail("host code dereferenced %p, an address of device memory that was never allocated", p);
  const char* where = address >= a->end() ? "after" : a->freed ? "in freed" : "in";
  fail(
      "host code dereferenced device memory: %p lies %s allocation #%lu of %zu bytes on device %d, at offset %zu; copy "
      "it "
      "with cudaMemcpyAsync, and wait",
      p, where, a->number, a->bytes, a->device, address - a->begin);
}

void on_fault(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (on_executor() && in_kernel()) {
    if (is_stack_guard(address)) fail("the thread's stack of %zu KiB overflowed", kFiberStack / 1024);
    fail("illegal access of memory at %p", info->si_addr);
  }
  if (in_arena(address)) explain_arena_fault(address);
  explain_pinned_fault(address);
  sigaction(SIGSEGV, &found, nullptr);  // the access is repeated, and its fault the former handler's
}

}  // namespace

void install_fault_handler() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) return;
  found = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

void give_handler_a_stack() {
  stack_t stack{};
  stack.ss_size = kHandlerStack;
  stack.ss_sp = malloc(kHandlerStack);
  sigaltstack(&stack, nullptr);
}

}  // namespace simgpu
