/// The threads of the block that runs: who runs next, what they wait for. Blocks run one after another, their threads
/// in turns, from one barrier to the next; the seed chooses the order.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "fiber.h"

namespace simgpu {

struct KernelRun {
  const char* name;
  void (*run)(const void* arguments);  // as one thread
  const void* arguments;
  dim3 grid, block;
};

enum class Turn { forward, mirrored, shuffled };

/// A thread that waits has its own stack; one that never did shares that of those before it.
struct Thread {
  enum class State : uint8_t { running, fresh, at_barrier, in_collective };

  void* stack_pointer = nullptr;
  uint64_t result = 0;  // of a collective
  uint16_t x = 0, y = 0, z = 0;
  uint16_t warp_epoch = 0;  // grows with each __syncwarp: greater than any of the others' before it
  int16_t fiber = -1;
  State state = State::fresh;
};

/// What the threads of some lanes do together, until all have come.
struct PendingCollective {
  Collective kind;
  unsigned mask, arrived;
  int width;
  const Location* site;
  uint64_t value[32];
  int argument[32];
};

struct Warp {
  static constexpr int kMost = 8;  // disjoint groups of lanes that wait
  PendingCollective pending[kMost];
  int count = 0;
};

/// The executor's alone.
struct Block {
  const KernelRun* kernel = nullptr;  // none runs: nullptr
  Thread* thread = nullptr;           // that runs; nullptr between blocks
  int size = 0, ended = 0;
  int begun = 0;        // of `order`, since the block began or passed a barrier
  int ready_count = 0;  // of `ready`, whose last is next
  int at_barrier = 0;
  uint32_t index = 0;            // of the block in its grid
  uint16_t epoch = 0;            // barriers passed
  bool fenced = false;           // one of its threads has passed a __threadfence
  bool sees_all_blocks = false;  // it has said that it is the last
  Turn turn = Turn::forward;
  int predicates = 0, passed_predicates = 0;  // how many said yes at the barrier, and at the one before
  const Location* site = nullptr;             // of the barrier where the first waits ...
  int site_thread = 0;                        // ... who is this one
  uint32_t blocks = 0, blocks_ended = 0, blocks_fenced = 0;

  Thread threads[kFibers];
  uint16_t order[kFibers];  // in which threads begin, and go on after a barrier
  uint16_t ready[kFibers];  // threads that a collective released
  Warp warps[kFibers / 32];

  int thread_index() const { return int(thread - threads); }
  /// Lets the thread that runs wait until it is its turn again.
  void wait(Thread::State state);
  /// Releases threads of the warp of thread `first` from a collective.
  void release(int first, unsigned lanes);
};
extern Block block;

inline bool in_kernel() { return block.kernel != nullptr; }

/// Runs all blocks of the grid. `before` and `after` are called around each.
void run_grid(const KernelRun& kernel, void (*before)(void*), void (*after)(void*), void* context);

/// "kernel f, block (0,0,0), thread (3,0,0)"; empty outside a kernel.
std::string position();

}  // namespace simgpu
