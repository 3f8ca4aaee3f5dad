/// Not installed. What all pools do alike: small blocks are cut from slabs and kept by size; larger ones are kept
/// sorted by size and handed out again where at most an eighth would be wasted. Where memory comes from is the heir's
/// matter.
#pragma once
#include <tandem/core/pool.h>

#include <mutex>
#include <vector>

namespace tandem {

class TANDEM_API CachingPool : public Pool {
 public:
  struct Sizes {
    size_t small;  // blocks up to this size come from slabs
    size_t step;   // ... rounded up to a multiple of this
    size_t slab;
  };

  Block allocate(size_t bytes) final;
  void free(Block b) noexcept final;
  PoolStats stats() const final;
  void reset_peak() final;
  void release_cached() final;
  void set_limit(size_t bytes) final;

 protected:
  CachingPool(Device d, Sizes sizes);

  /// Memory of the system's, null where it has no more. It may throw where the pool may not grow now.
  virtual void* system_allocate(size_t bytes) = 0;
  virtual void system_free(Block b) noexcept = 0;
  /// The same for a tensor with memory of its own (TANDEM_POOL=off), which a memory checker watches.
  virtual void* unpooled_allocate(size_t bytes) = 0;
  virtual void unpooled_free(Block b) noexcept = 0;

 private:
  Block unpooled(size_t bytes);
  Block small(size_t size);
  Block large(size_t size);
  bool fits_limit(size_t size) const { return !limit_ || stats_.reserved + size <= limit_; }
  void grew(size_t size);
  void* from_system(size_t size);
  void release_large();
  [[noreturn]] void fail(size_t size) const;

  const Device device_;
  const Sizes sizes_;
  mutable std::mutex m_;
  std::vector<std::vector<void*>> small_;  // free blocks by steps
  std::vector<Block> large_;               // free blocks, by size
  std::byte* slab_ = nullptr;
  size_t slab_left_ = 0;
  size_t limit_ = 0;
  PoolStats stats_;
};

/// A multiple of `to` that is at least n.
inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace tandem
