// The CPU's pool, one per CPU device. From 2 MiB on memory is mapped on huge pages: page faults are what a training
// step would otherwise spend its time on.
#include <tandem/core/backend.h>
#include <tandem/core/caching_pool.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>

namespace tandem {
namespace {

constexpr size_t kHuge = 2 << 20;

class CpuPool final : public CachingPool {
 public:
  explicit CpuPool(int index) : CachingPool(cpu(index), {.small = 4096, .step = 64, .slab = 256 << 10}) {}

 private:
  void* system_allocate(size_t bytes) override {
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
  void system_free(Block b) noexcept override {
    if (b.capacity < kHuge)
      std::free(b.data);
    else
      munmap(b.data, b.capacity);
  }
  void* unpooled_allocate(size_t bytes) override {
    void* p = nullptr;
    return posix_memalign(&p, 64, bytes) == 0 ? p : nullptr;
  }
  void unpooled_free(Block b) noexcept override { std::free(b.data); }
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
