/// The threads of the block that runs: who runs next, what they wait for. Blocks run one after another, their threads
/// in turns, from one barrier to the next; the seed chooses the order.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

namespace simgpu {

struct KernelRun {
  const char* name;
  void (*run)(const void* arguments);  // as one thread
  const void* arguments;
  dim3 grid, block;
};

enum class Turn { forward, mirrored, shuffled };

struct Thread {
  enum class State : uint8_t { fresh, ready, at_barrier, in_collective, ended };

  void* stack_pointer = nullptr;
  const Location* site = nullptr;  // where it waits
  uint64_t result = 0;             // of a collective
  uint16_t x = 0, y = 0, z = 0;
  uint16_t epoch = 0;       // barriers of the block passed
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
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint16_t> order;  // in which threads begin
  std::vector<uint16_t> ready;  // threads to go on, last first
  int size = 0, begun = 0, ended = 0, at_barrier = 0;
  int predicates = 0;  // how many of those at the barrier said yes
  Turn turn = Turn::forward;

  Thread* thread = nullptr;  // that runs; nullptr between blocks
  uint32_t index = 0;        // of the block in its grid
  uint32_t blocks = 0, blocks_ended = 0, blocks_fenced = 0;
  bool fenced = false;           // one of its threads has passed a __threadfence
  bool sees_all_blocks = false;  // it has said that it is the last

  int thread_index() const { return int(thread - threads.data()); }
  /// Lets the thread that runs wait until it is made ready.
  void wait(Thread::State state, const Location& site);
  /// Makes the threads [first, last) that wait so, and whose lanes are in the mask, ready.
  void wake(int first, int last, Thread::State state, unsigned lanes);
};
extern Block block;

inline bool in_kernel() { return block.kernel != nullptr; }

/// Runs all blocks of the grid. `before` and `after` are called around each.
void run_grid(const KernelRun& kernel, void (*before)(void*), void (*after)(void*), void* context);

/// "kernel f, block (0,0,0), thread (3,0,0)"; empty outside a kernel.
std::string position();

}  // namespace simgpu
