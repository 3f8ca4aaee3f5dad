#include <tandem/core/caching_pool.h>
#include <tandem/core/context.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tandem {
namespace {

bool pool_off() {
  static const bool off = [] {
    const char* e = std::getenv("TANDEM_POOL");
    return e && !std::strcmp(e, "off");
  }();
  return off;
}

bool by_size(const Block& a, const Block& b) { return a.capacity < b.capacity; }

}  // namespace

CachingPool::CachingPool(Device d, Sizes sizes) : device_(d), sizes_(sizes), small_(sizes.small / sizes.step + 1) {}

Block CachingPool::allocate(size_t bytes) {
  std::lock_guard l(m_);
  Block b = pool_off()              ? unpooled(bytes)
            : bytes <= sizes_.small ? small(round_up(std::max<size_t>(bytes, 1), sizes_.step))
                                    : large(round_up(bytes, bytes <= (1 << 20) ? 4096 : 65536));
  stats_.allocated += b.capacity;
  stats_.max_allocated = std::max(stats_.max_allocated, stats_.allocated);
  return b;
}

void CachingPool::free(Block b) noexcept {
  std::lock_guard l(m_);
  stats_.allocated -= b.capacity;
  if (pool_off()) {
    stats_.reserved -= b.capacity;
    unpooled_free(b);
  } else if (b.capacity <= sizes_.small) {
    small_[b.capacity / sizes_.step].push_back(b.data);
  } else {
    large_.insert(std::upper_bound(large_.begin(), large_.end(), b, by_size), b);
  }
}

PoolStats CachingPool::stats() const {
  std::lock_guard l(m_);
  return stats_;
}

void CachingPool::reset_peak() {
  std::lock_guard l(m_);
  stats_.max_allocated = stats_.allocated;
}

void CachingPool::release_cached() {
  std::lock_guard l(m_);
  release_large();
}

void CachingPool::set_limit(size_t bytes) {
  std::lock_guard l(m_);
  limit_ = bytes;
}

Block CachingPool::unpooled(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* p = fits_limit(size) ? unpooled_allocate(size) : nullptr;
  if (!p) fail(size);
  grew(size);
  return {p, size};
}

Block CachingPool::small(size_t size) {
  auto& free = small_[size / sizes_.step];
  if (!free.empty()) {
    void* p = free.back();
    free.pop_back();
    return {p, size};
  }
  if (slab_left_ < size) {
    slab_ = static_cast<std::byte*>(from_system(sizes_.slab));
    slab_left_ = sizes_.slab;
  }
  void* p = slab_;
  slab_ += size;
  slab_left_ -= size;
  return {p, size};
}

Block CachingPool::large(size_t size) {
  auto it = std::lower_bound(large_.begin(), large_.end(), Block{nullptr, size}, by_size);
  if (it != large_.end() && it->capacity <= size + size / 8) {
    Block b = *it;
    large_.erase(it);
    return b;
  }
  return {from_system(size), size};
}

void CachingPool::grew(size_t size) {
  stats_.reserved += size;
  ++stats_.system_calls;
}

void* CachingPool::from_system(size_t size) {
  void* p = fits_limit(size) ? system_allocate(size) : nullptr;
  if (!p) {
    release_large();
    if (fits_limit(size)) p = system_allocate(size);
  }
  if (!p) fail(size);
  grew(size);
  return p;
}

void CachingPool::release_large() {
  for (auto& b : large_) {
    stats_.reserved -= b.capacity;
    system_free(b);
  }
  large_.clear();
}

void CachingPool::fail(size_t size) const {
  throw OutOfMemoryError(message("[", context().op, "] out of memory on ", device_, ": ", size, " bytes wanted, ",
                                 stats_.allocated, " in use by tensors, ", stats_.reserved, " taken from the system",
                                 limit_ ? message(", limit ", limit_) : std::string(),
                                 ". A smaller batch, checkpoint() or empty_cache() may help"));
}

}  // namespace tandem
