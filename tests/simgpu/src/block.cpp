#include "block.h"

#include <algorithm>
#include <numeric>

#include "fiber.h"
#include "location.h"
#include "operation.h"
#include "settings.h"

// Side by side, so that one comparison tells their addresses.
__attribute__((section("simgpu_place"))) uint3 threadIdx, blockIdx;
__attribute__((section("simgpu_place"))) dim3 blockDim, gridDim;

namespace simgpu {

Block block;

namespace {

int16_t free_fibers[kFibers];
int free_count = 0;
void* executor_stack;   // where run_block goes on when all threads have ended
void* abandoned_stack;  // of a fiber that won't run again

void make_current(Thread& t) {
  block.thread = &t;
  threadIdx.x = t.x;
  threadIdx.y = t.y;
  threadIdx.z = t.z;
}

[[noreturn]] void explain_collective() {
  for (const Warp& w : block.warps)
    if (w.count > 0)
      fail(
          "the warp function at %s never completes: mask %08x, arrived %08x; the other lanes have ended, or wait "
          "elsewhere",
          text(*w.pending[0].site).c_str(), w.pending[0].mask, w.pending[0].arrived);
  fail("no thread of the block can go on");
}

void pass_barrier() {
  if (block.ended)
    fail("barrier divergence: %d of %d threads have ended, while %d wait at the barrier at %s", block.ended, block.size,
         block.at_barrier, text(*block.site).c_str());
  if (++block.epoch == 0) fail("more barriers in a block than the simulator counts");
  block.passed_predicates = block.predicates;
  block.predicates = block.at_barrier = block.begun = 0;
  if (block.turn == Turn::shuffled && random_below(2)) std::reverse(block.order, block.order + block.size);
}

// The thread to run, or nullptr when all have ended.
Thread* next_thread() {
  if (block.ready_count) return &block.threads[block.ready[--block.ready_count]];
  if (block.begun == block.size) {
    if (block.ended == block.size) return nullptr;
    if (block.at_barrier != block.size - block.ended) explain_collective();
    pass_barrier();
  }
  return &block.threads[block.order[block.begun++]];
}

void fiber_main();

void switch_to(Thread& t, void** from) {
  make_current(t);
  if (t.state == Thread::State::fresh) {
    t.fiber = free_fibers[--free_count];
    t.stack_pointer = fresh_fiber(t.fiber, fiber_main);
  }
  t.state = Thread::State::running;
  simgpu_switch(from, t.stack_pointer);
}

// Threads that never wait run one after another on the same stack.
void fiber_main() {
  for (;;) {
    const int16_t fiber = block.thread->fiber;
    block.kernel->run(block.kernel->arguments);
    ++block.ended;
    Thread* next = next_thread();
    if (next && next->state == Thread::State::fresh) {
      next->fiber = fiber;
      next->state = Thread::State::running;
      make_current(*next);
      continue;
    }
    free_fibers[free_count++] = block.thread->fiber;
    if (!next) simgpu_switch(&abandoned_stack, executor_stack);
    switch_to(*next, &abandoned_stack);
  }
}

void choose_order() {
  block.turn = Turn(random_below(3));
  const int warps = (block.size + 31) / 32;
  int order[kFibers / 32];
  std::iota(order, order + warps, 0);
  int lanes = 0;  // the k-th to begin is lane k ^ lanes
  if (block.turn == Turn::mirrored) {
    std::reverse(order, order + warps);
    lanes = 31;
  } else if (block.turn == Turn::shuffled) {
    for (int i = warps; i > 1; --i) std::swap(order[i - 1], order[random_below(uint32_t(i))]);
    lanes = int(random_below(32));
  }
  int n = 0;
  for (int w = 0; w < warps; ++w)
    for (int k = 0; k < 32; ++k)
      if (const int t = order[w] * 32 + (k ^ lanes); t < block.size) block.order[n++] = uint16_t(t);
}

void run_block() {
  for (int i = 0; i < block.size; ++i) {
    block.threads[i].state = Thread::State::fresh;
    block.threads[i].warp_epoch = 0;
  }
  block.begun = block.ended = block.epoch = 0;
  block.fenced = block.sees_all_blocks = false;
  switch_to(*next_thread(), &executor_stack);
  block.thread = nullptr;
  ++block.blocks_ended;
  block.blocks_fenced += block.fenced;
}

}  // namespace

void Block::wait(Thread::State state) {
  Thread* me = thread;
  me->state = state;
  Thread* next = next_thread();
  if (next == me)
    me->state = Thread::State::running;
  else
    switch_to(*next, &me->stack_pointer);
}

void Block::release(int first, unsigned lanes) {
  uint16_t* begin = ready + ready_count;
  for (int lane = 31; lane >= 0; --lane)
    if ((lanes >> lane & 1) && threads[first + lane].state == Thread::State::in_collective)
      ready[ready_count++] = uint16_t(first + lane);
  uint16_t* end = ready + ready_count;
  if (turn == Turn::mirrored) std::reverse(begin, end);
  if (turn == Turn::shuffled && end - begin > 1) std::rotate(begin, begin + random_below(uint32_t(end - begin)), end);
}

void run_grid(const KernelRun& kernel, void (*before)(void*), void (*after)(void*), void* context) {
  if (!free_count)
    for (int i = kFibers; i-- > 0;) free_fibers[free_count++] = int16_t(i);
  const dim3 grid = gridDim = kernel.grid, size = blockDim = kernel.block;
  block.kernel = &kernel;
  block.size = int(size.x * size.y * size.z);
  for (int i = 0; i < block.size; ++i) {
    Thread& t = block.threads[i];
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
  if (block.at_barrier++ == 0) {
    block.site = &where;
    block.site_thread = block.thread_index();
  } else if (!same(where, *block.site)) {
    fail("barrier divergence: thread %d waits at %s, thread %d at %s", block.site_thread, text(*block.site).c_str(),
         block.thread_index(), text(where).c_str());
  }
  block.predicates += predicate;
  block.wait(Thread::State::at_barrier);
  const int yes = block.passed_predicates;
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
