/// Shared memory of the block that runs: the executor thread's thread-local storage. It holds NaN when a block begins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu {

inline constexpr size_t kMostSharedMemory = 227 * 1024;    // of a block, with cudaFuncSetAttribute
inline constexpr size_t kDefaultSharedMemory = 48 * 1024;  // without
struct SharedRange {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t a) const { return a - begin < end - begin; }
};

/// Where shared memory of the running kernel lies.
struct SharedPlaces {
  SharedRange dynamic;   // all that a launch may ask for ...
  size_t dynamic_bytes;  // ... and what this one did
  SharedRange statics;   // the module's thread-local storage
};
const SharedPlaces& shared_places();

/// What is known of one kernel's static arrays. Its module's thread-local storage holds the arrays of all kernels, too
/// many to refill for each block: the first launches of a kernel show which parts it writes.
class SharedMemory {
 public:
  explicit SharedMemory(const void* kernel) : kernel_(kernel) {}

  void begin_launch(size_t dynamic_bytes);
  void begin_block();
  /// Fails loudly where the kernel wrote past its dynamic memory.
  void end_block();

 private:
  void find_module();
  void learn();

  const void* kernel_;
  SharedRange module_{};
  std::vector<SharedRange> written_;
  size_t dynamic_bytes_ = 0;
  int launches_ = 0, blocks_ = 0;
};

}  // namespace simgpu
