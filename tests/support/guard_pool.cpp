#include "tests/support/guard_pool.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace tandem::test {
namespace {
constexpr size_t kZone = 64;
constexpr unsigned char kSentinel = 0xA5, kNaN = 0xFF;  // all bits set is a NaN in every floating type
}  // namespace

GuardPool::~GuardPool() {
  for (auto& [p, b] : live_) std::free(static_cast<std::byte*>(p) - kZone);
}

Block GuardPool::allocate(size_t bytes) {
  size_t body = (bytes + 63) / 64 * 64;
  auto* p = static_cast<std::byte*>(std::aligned_alloc(64, body + 2 * kZone));
  if (!p) throw std::bad_alloc();
  std::memset(p, kSentinel, kZone + bytes);
  std::memset(p + kZone, kNaN, bytes);
  std::memset(p + kZone + bytes, kSentinel, body + kZone - bytes);
  Block b{p + kZone, bytes};
  std::lock_guard l(m_);
  live_[b.data] = b;
  return b;
}

bool GuardPool::intact(const Block& b) {
  auto* p = static_cast<const unsigned char*>(b.data);
  for (size_t i = 1; i <= kZone; ++i)
    if (p[-int64_t(i)] != kSentinel || p[b.capacity + i - 1] != kSentinel) return false;
  return true;
}

void GuardPool::free(Block b) noexcept {
  std::lock_guard l(m_);
  if (!intact(b)) ++violations_;
  live_.erase(b.data);
  std::free(static_cast<std::byte*>(b.data) - kZone);
}

PoolStats GuardPool::stats() const { return {}; }

int GuardPool::violations() {
  std::lock_guard l(m_);
  int n = violations_;
  for (auto& [p, b] : live_)
    if (!intact(b)) ++n;
  return n;
}

}  // namespace tandem::test
