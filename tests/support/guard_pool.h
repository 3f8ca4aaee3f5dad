/// A pool for tests: every block has sentinels before and after it and starts out as NaN, so that a kernel that writes
/// past its tensor or reads what it should only write is caught. In force through Context::pool.
#pragma once
#include <tandem/core/context.h>
#include <tandem/core/pool.h>

#include <map>
#include <mutex>

namespace tandem::test {

class GuardPool final : public Pool {
 public:
  ~GuardPool() override;
  Block allocate(size_t bytes) override;
  void free(Block b) noexcept override;
  PoolStats stats() const override;
  void reset_peak() override {}
  void release_cached() override {}
  void set_limit(size_t) override {}
  /// How many blocks, in use or freed, had a sentinel overwritten. Checks those in use now.
  int violations();

 private:
  static bool intact(const Block& b);
  std::mutex m_;
  std::map<void*, Block> live_;
  int violations_ = 0;
};

/// CPU tensors of this thread come from `pool` for a scope.
class PoolGuard {
 public:
  explicit PoolGuard(Pool& p) : was_(std::exchange(context().pool, &p)) {}
  ~PoolGuard() { context().pool = was_; }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

 private:
  Pool* was_;
};

}  // namespace tandem::test
