#include "range_allocator.h"

namespace simgpu {

uintptr_t RangeAllocator::allocate(size_t bytes) {
  if (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end()) {
    const auto [size, address] = *fit;
    remove(by_address_.find(address));
    if (size > bytes) release(address + bytes, size - bytes);
    return address;
  }
  if (bytes > end_ - next_) return 0;
  const uintptr_t address = next_;
  next_ += bytes;
  return address;
}

void RangeAllocator::release(uintptr_t address, size_t bytes) {
  auto after = by_address_.lower_bound(address);
  if (after != by_address_.end() && address + bytes == after->first) {
    bytes += after->second;
    const auto joined = after++;
    remove(joined);
  }
  if (after != by_address_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == address) {
      address = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  by_address_.emplace(address, bytes);
  by_size_.emplace(bytes, address);
}

void RangeAllocator::remove(std::map<uintptr_t, size_t>::iterator free) {
  by_size_.erase({free->second, free->first});
  by_address_.erase(free);
}

}  // namespace simgpu
