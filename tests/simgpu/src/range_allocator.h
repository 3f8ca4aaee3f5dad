/// Hands out ranges of a span of addresses, first the smallest that fits, and joins what comes back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace simgpu {

class RangeAllocator {
 public:
  RangeAllocator() = default;
  RangeAllocator(uintptr_t begin, uintptr_t end) : next_(begin), end_(end) {}

  /// 0 where nothing is left. Sizes are the caller's to round.
  uintptr_t allocate(size_t bytes);
  void release(uintptr_t address, size_t bytes);

  /// All that was ever handed out lies below.
  uintptr_t high() const { return next_; }

 private:
  void remove(std::map<uintptr_t, size_t>::iterator free);

  uintptr_t next_ = 0, end_ = 0;
  std::map<uintptr_t, size_t> by_address_;
  std::set<std::pair<size_t, uintptr_t>> by_size_;
};

}  // namespace simgpu
