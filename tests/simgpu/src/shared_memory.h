/// Shared memory of the block that runs: the executor thread's thread-local storage. It holds NaN when a block begins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu {

inline constexpr size_t kMostSharedMemory = 227 * 1024;    // of a block, with cudaFuncSetAttribute
inline constexpr size_t kDefaultSharedMemory = 48 * 1024;  // without
struct SharedRange {
  uintptr_t begin, end;
};

/// What is known of one kernel's static arrays. Its module's thread-local storage holds the arrays of all kernels, too
/// many to refill for each block: the first launches of a kernel show which parts it writes.
class SharedMemory {
 public:
  explicit SharedMemory(const void* kernel) : kernel_(kernel) {}

  void begin_launch(size_t dynamic_bytes);
  void begin_block();
  /// Fails loudly where the kernel wrote past its dynamic memory.
  void end_block();

  /// The module's storage, which holds the static arrays.
  SharedRange module() const { return module_; }

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
