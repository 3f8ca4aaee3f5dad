// The CPU's pool. Small blocks are cut from slabs and kept by size; larger ones are kept sorted by size and reused
// where at most an eighth would be wasted. From 2 MiB on memory is mapped on huge pages: page faults are what a
// training step would otherwise spend its time on.
#include <tandem/core/backend.h>
#include <tandem/core/pool.h>

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace tandem {
namespace {

constexpr size_t kSmall = 4096, kSlab = 256 << 10, kHuge = 2 << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
size_t block_size(size_t bytes) {
  if (bytes <= kSmall) return round_up(std::max<size_t>(bytes, 1), 64);
  if (bytes <= (1 << 20)) return round_up(bytes, 4096);
  return round_up(bytes, 65536);
}

void* system_allocate(size_t bytes) {
  if (bytes < kHuge) return std::aligned_alloc(4096, round_up(bytes, 4096));
  size_t span = bytes + kHuge;  // mapped with room to start on a huge page
  void* m = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return nullptr;
  auto at = reinterpret_cast<uintptr_t>(m);
  uintptr_t start = round_up(at, kHuge);
  if (start > at) munmap(m, start - at);
  if (at + span > start + bytes) munmap(reinterpret_cast<void*>(start + bytes), at + span - start - bytes);
  madvise(reinterpret_cast<void*>(start), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(start);
}
void system_free(Block b) {
  if (b.capacity < kHuge)
    std::free(b.data);
  else
    munmap(b.data, b.capacity);
}

// TANDEM_POOL=off: each tensor has memory of its own, so that a memory checker sees its bounds and its end.
bool pool_off() {
  static const bool off = [] {
    const char* e = std::getenv("TANDEM_POOL");
    return e && !std::strcmp(e, "off");
  }();
  return off;
}

class CpuPool final : public Pool {
 public:
  explicit CpuPool(int index) : device_(cpu(index)) {}

  Block allocate(size_t bytes) override {
    std::lock_guard l(m_);
    Block b = pool_off() ? unpooled(bytes) : bytes <= kSmall ? small(block_size(bytes)) : large(block_size(bytes));
    stats_.allocated += b.capacity;
    stats_.max_allocated = std::max(stats_.max_allocated, stats_.allocated);
    return b;
  }
  void free(Block b) noexcept override {
    std::lock_guard l(m_);
    stats_.allocated -= b.capacity;
    if (pool_off()) {
      stats_.reserved -= b.capacity;
      std::free(b.data);
    } else if (b.capacity <= kSmall) {
      small_[b.capacity / 64].push_back(b.data);
    } else {
      large_.insert(std::upper_bound(large_.begin(), large_.end(), b, by_size), b);
    }
  }
  PoolStats stats() const override {
    std::lock_guard l(m_);
    return stats_;
  }
  void reset_peak() override {
    std::lock_guard l(m_);
    stats_.max_allocated = stats_.allocated;
  }
  void release_cached() override {
    std::lock_guard l(m_);
    release_large();
  }
  void set_limit(size_t bytes) override {
    std::lock_guard l(m_);
    limit_ = bytes;
  }

 private:
  static bool by_size(const Block& a, const Block& b) { return a.capacity < b.capacity; }

  Block unpooled(size_t bytes) {
    size_t size = std::max<size_t>(bytes, 1);
    void* p = nullptr;
    if (fits_limit(size) && posix_memalign(&p, 64, size) != 0) p = nullptr;
    if (!p) fail(size);
    grew(size);
    return {p, size};
  }
  Block small(size_t size) {
    auto& free = small_[size / 64];
    if (!free.empty()) {
      void* p = free.back();
      free.pop_back();
      return {p, size};
    }
    if (slab_left_ < size) {
      slab_ = static_cast<std::byte*>(from_system(kSlab));
      slab_left_ = kSlab;
    }
    void* p = slab_;
    slab_ += size;
    slab_left_ -= size;
    return {p, size};
  }
  Block large(size_t size) {
    auto it = std::lower_bound(large_.begin(), large_.end(), Block{nullptr, size}, by_size);
    if (it != large_.end() && it->capacity <= size + size / 8) {
      Block b = *it;
      large_.erase(it);
      return b;
    }
    return {from_system(size), size};
  }
  bool fits_limit(size_t size) const { return !limit_ || stats_.reserved + size <= limit_; }
  void grew(size_t size) {
    stats_.reserved += size;
    ++stats_.system_calls;
  }
  void* from_system(size_t size) {
    void* p = fits_limit(size) ? system_allocate(size) : nullptr;
    if (!p) {
      release_large();
      if (fits_limit(size)) p = system_allocate(size);
    }
    if (!p) fail(size);
    grew(size);
    return p;
  }
  void release_large() {
    for (auto& b : large_) {
      stats_.reserved -= b.capacity;
      system_free(b);
    }
    large_.clear();
  }
  [[noreturn]] void fail(size_t size) const {
    throw OutOfMemoryError(message("[", context().op, "] out of memory on ", device_, ": ", size, " bytes wanted, ",
                                   stats_.allocated, " in use by tensors, ", stats_.reserved, " taken from the system",
                                   limit_ ? message(", limit ", limit_) : std::string(),
                                   ". A smaller batch, checkpoint() or empty_cache() may help"));
  }

  Device device_;
  mutable std::mutex m_;
  std::vector<void*> small_[kSmall / 64 + 1];  // free blocks by 64 bytes
  std::vector<Block> large_;                   // free blocks, by size
  std::byte* slab_ = nullptr;
  size_t slab_left_ = 0;
  size_t limit_ = 0;
  PoolStats stats_;
};

CpuPool& cpu_pool(int index) {
  static std::mutex m;
  static std::atomic<CpuPool*> pools[kMaxDevices];  // never destroyed: tensors may outlive main
  if (auto p = pools[index].load(std::memory_order_acquire)) return *p;
  std::lock_guard l(m);
  if (!pools[index].load()) pools[index] = new CpuPool(index);
  return *pools[index];
}

}  // namespace

Pool& pool(Device d) {
  if (!d.is_cpu()) return current_stream(d).pool();
  if (d.index) require_device(d);
  if (Pool* p = context().pool) return *p;
  return cpu_pool(d.index);
}

size_t memory_allocated(Device d) { return pool(d).stats().allocated; }
size_t max_memory_allocated(Device d) { return pool(d).stats().max_allocated; }
size_t memory_reserved(Device d) { return pool(d).stats().reserved; }
void reset_peak_memory_stats(Device d) { pool(d).reset_peak(); }
void empty_cache(Device d) { pool(d).release_cached(); }
void set_memory_limit(size_t bytes, Device d) { pool(d).set_limit(bytes); }

}  // namespace tandem
