#include "block.h"

#include <algorithm>
#include <numeric>

#include "fiber.h"
#include "location.h"
#include "operation.h"
#include "settings.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace simgpu {

Block block;

namespace {

std::vector<int16_t> free_fibers;
void* executor_stack;   // where run_block goes on when all threads have ended
void* abandoned_stack;  // of a fiber that won't run again

void make_current(Thread& t) {
  block.thread = &t;
  threadIdx.x = t.x;
  threadIdx.y = t.y;
  threadIdx.z = t.z;
}

void check_collectives() {
  for (int i = 0; i < block.size; ++i) {
    const Thread& t = block.threads[size_t(i)];
    if (t.state != Thread::State::in_collective) continue;
    const Warp& w = block.warps[size_t(i / 32)];
    for (int k = 0; k < w.count; ++k)
      if (const auto& p = w.pending[k]; p.mask >> (i % 32) & 1)
        fail(
            "the warp function at %s never completes: mask %08x, arrived %08x; the other lanes have ended, or wait "
            "elsewhere",
            text(*p.site).c_str(), p.mask, p.arrived);
  }
}

// All threads that haven't ended wait at the barrier.
void check_barrier() {
  const Thread* first = nullptr;
  for (const Thread& t : block.threads) {
    if (t.state != Thread::State::at_barrier) continue;
    if (!first) first = &t;
    if (!same(*t.site, *first->site))
      fail("barrier divergence: thread %d waits at %s, thread %d at %s", int(first - block.threads.data()),
           text(*first->site).c_str(), int(&t - block.threads.data()), text(*t.site).c_str());
  }
  if (block.ended)
    fail("barrier divergence: %d of %d threads have ended, while %d wait at the barrier at %s", block.ended, block.size,
         block.at_barrier, text(*first->site).c_str());
}

void pass_barrier() {
  check_barrier();
  block.at_barrier = 0;
  for (Thread& t : block.threads) {
    t.result = uint64_t(block.predicates);
    if (++t.epoch == 0) fail("more barriers in a block than the simulator counts");
  }
  block.predicates = 0;
  block.wake(0, block.size, Thread::State::at_barrier, ~0u);
}

// The thread to run, or nullptr when all have ended.
Thread* next_thread() {
  for (;;) {
    if (!block.ready.empty()) {
      Thread* t = &block.threads[block.ready.back()];
      block.ready.pop_back();
      return t;
    }
    if (block.begun < block.size) return &block.threads[block.order[size_t(block.begun++)]];
    if (block.ended == block.size) return nullptr;
    if (block.at_barrier != block.size - block.ended) check_collectives();
    pass_barrier();
  }
}

void fiber_main();

void switch_to(Thread& t, void** from) {
  make_current(t);
  if (t.state == Thread::State::fresh) {
    t.fiber = free_fibers.back();
    free_fibers.pop_back();
    t.stack_pointer = fresh_fiber(t.fiber, fiber_main);
  }
  simgpu_switch(from, t.stack_pointer);
}

// Threads that never wait run one after another on the same stack; it is a thread's own from its first wait on.
void fiber_main() {
  for (;;) {
    Thread& t = *block.thread;
    t.state = Thread::State::ready;
    block.kernel->run(block.kernel->arguments);
    t.state = Thread::State::ended;
    ++block.ended;
    Thread* next = next_thread();
    if (next && next->state == Thread::State::fresh) {
      next->fiber = t.fiber;
      make_current(*next);
      continue;
    }
    free_fibers.push_back(t.fiber);
    if (!next) simgpu_switch(&abandoned_stack, executor_stack);
    switch_to(*next, &abandoned_stack);
  }
}

void choose_order() {
  block.turn = Turn(random_below(3));
  const int warps = (block.size + 31) / 32;
  std::vector<int> order(static_cast<size_t>(warps));
  std::iota(order.begin(), order.end(), 0);
  int lanes = 0;  // the k-th to begin is lane k ^ lanes
  if (block.turn == Turn::mirrored) {
    std::reverse(order.begin(), order.end());
    lanes = 31;
  } else if (block.turn == Turn::shuffled) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_below(uint32_t(i))]);
    lanes = int(random_below(32));
  }
  block.order.clear();
  for (const int w : order)
    for (int k = 0; k < 32; ++k)
      if (const int t = w * 32 + (k ^ lanes); t < block.size) block.order.push_back(uint16_t(t));
}

void run_block() {
  for (Thread& t : block.threads) {
    t.state = Thread::State::fresh;
    t.epoch = t.warp_epoch = 0;
  }
  for (Warp& w : block.warps) w.count = 0;
  block.begun = block.ended = block.at_barrier = block.predicates = 0;
  block.fenced = block.sees_all_blocks = false;
  switch_to(*next_thread(), &executor_stack);
  block.thread = nullptr;
  ++block.blocks_ended;
  block.blocks_fenced += block.fenced;
}

}  // namespace

void Block::wait(Thread::State state, const Location& site) {
  Thread* me = thread;
  me->state = state;
  me->site = &site;
  Thread* next = next_thread();
  if (next != me) switch_to(*next, &me->stack_pointer);
}

void Block::wake(int first, int last, Thread::State state, unsigned lanes) {
  const auto old = ready.size();
  for (int i = last - 1; i >= first; --i) {
    Thread& t = threads[size_t(i)];
    if (t.state != state || !(lanes >> (i % 32) & 1)) continue;
    t.state = Thread::State::ready;
    ready.push_back(uint16_t(i));
  }
  const auto begin = ready.begin() + long(old);
  if (turn == Turn::mirrored) std::reverse(begin, ready.end());
  if (turn == Turn::shuffled)
    for (auto n = ready.end() - begin; n > 1; --n) std::swap(begin[n - 1], begin[random_below(uint32_t(n))]);
}

void run_grid(const KernelRun& kernel, void (*before)(void*), void (*after)(void*), void* context) {
  if (free_fibers.empty())
    for (int i = kFibers; i-- > 0;) free_fibers.push_back(int16_t(i));
  const dim3 grid = gridDim = kernel.grid, size = blockDim = kernel.block;
  block.kernel = &kernel;
  block.size = int(size.x * size.y * size.z);
  block.threads.assign(size_t(block.size), {});
  block.warps.resize(size_t(block.size + 31) / 32);
  for (int i = 0; i < block.size; ++i) {
    Thread& t = block.threads[size_t(i)];
    t.x = uint16_t(unsigned(i) % size.x);
    t.y = uint16_t(unsigned(i) / size.x % size.y);
    t.z = uint16_t(unsigned(i) / (size.x * size.y));
  }
  choose_order();
  block.blocks = grid.x * grid.y * grid.z;
  block.blocks_ended = block.blocks_fenced = 0;
  // Shuffled blocks begin somewhere and go round.
  const uint32_t first = block.turn == Turn::shuffled ? random_below(block.blocks) : 0;
  for (uint32_t k = 0; k < block.blocks; ++k) {
    block.index = block.turn == Turn::mirrored ? block.blocks - 1 - k : (first + k) % block.blocks;
    blockIdx = {block.index % grid.x, block.index / grid.x % grid.y, block.index / (grid.x * grid.y)};
    before(context);
    run_block();
    after(context);
  }
  block.kernel = nullptr;
}

int block_barrier(BlockReduction reduction, bool predicate, const Location& where) {
  if (!in_kernel()) fail("__syncthreads outside a kernel, at %s", text(where).c_str());
  ++block.at_barrier;
  block.predicates += predicate;
  block.wait(Thread::State::at_barrier, where);
  const int yes = int(block.thread->result);
  switch (reduction) {
    case BlockReduction::count: return yes;
    case BlockReduction::all: return yes == block.size;
    case BlockReduction::any: return yes != 0;
    case BlockReduction::none: break;
  }
  return 0;
}

void fence() { block.fenced = true; }

void join_blocks(const Location& where) {
  const uint32_t others = block.blocks - 1;
  if (block.blocks_ended != others)
    fail("the block takes itself for the last of the grid, at %s, but %u of %u others have not ended",
         text(where).c_str(), others - block.blocks_ended, others);
  if (block.blocks_fenced != others)
    fail("the last block reads, at %s, what the others wrote, but %u of them passed no __threadfence after writing",
         text(where).c_str(), others - block.blocks_fenced);
  block.sees_all_blocks = true;
}

std::string position() {
  if (!in_kernel()) return {};
  char text[128];
  std::snprintf(text, sizeof text, ", block (%u,%u,%u)", blockIdx.x, blockIdx.y, blockIdx.z);
  std::string all = std::string("kernel ") + block.kernel->name + text;
  if (!block.thread) return all;
  std::snprintf(text, sizeof text, ", thread (%u,%u,%u)", threadIdx.x, threadIdx.y, threadIdx.z);
  return all + text;
}

}  // namespace simgpu
