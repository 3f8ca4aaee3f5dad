#include "allocations.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>

#include "arena.h"
#include "operation.h"
#include "poison.h"
#include "range_allocator.h"
#include "settings.h"
#include "shadow.h"

namespace simgpu {
namespace {

constexpr size_t kAlignment = 256;  // what cudaMalloc promises, and not more
constexpr size_t kGuard = 256;      // at least so many bytes after each allocation are watched
constexpr unsigned char kGuardByte = 0xa5;
constexpr size_t kMostRetired = size_t{64} << 20;

struct Span {
  uintptr_t begin;
  size_t bytes;
};

struct Device {
  RangeAllocator addresses;
  MemoryUse use{};
  std::deque<Span> retired;  // freed, and not used again yet: the checked mode then knows who uses them still
  size_t retired_bytes = 0;

  void retire(Span s) {
    retired.push_back(s);
    retired_bytes += s.bytes;
    while (retired_bytes > (checked ? kMostRetired : 0)) reuse_oldest();
  }
  void reuse_oldest() {
    const Span s = retired.front();
    retired.pop_front();
    retired_bytes -= s.bytes;
    addresses.release(s.begin, s.bytes);
  }
  uintptr_t allocate(size_t bytes) {
    for (;;) {
      const uintptr_t p = addresses.allocate(bytes);
      if (p || retired.empty()) return p;
      reuse_oldest();
    }
  }
};

std::array<Device, kMaxDevices>& devices() {
  static auto& all = *new std::array<Device, kMaxDevices>;
  return all;
}

Device& device(int index) {
  Device& d = devices()[size_t(index)];
  if (!d.addresses.high()) {
    const uintptr_t begin = arena_begin(index);
    d.addresses = RangeAllocator(begin, begin + settings().device_bytes);
  }
  return d;
}

std::map<uintptr_t, Allocation>& allocations() {
  static auto& m = *new std::map<uintptr_t, Allocation>;
  return m;
}

size_t reserved(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment + kGuard; }

void check_guard(const Allocation& a) {
  const auto* guard = reinterpret_cast<const unsigned char*>(a.end());
  for (size_t i = 0; i < reserved(a.bytes) - a.bytes; ++i)
    if (guard[i] != kGuardByte)
      fail("memory %zu bytes past the end of allocation #%lu (%zu bytes on device %d) was written", i + 1, a.number,
           a.bytes, a.device);
}

}  // namespace

void* allocate(int index, size_t bytes, bool later) {
  static uint64_t number = 0;
  Device& d = device(index);
  const size_t size = reserved(bytes);
  const uintptr_t begin = d.allocate(size);
  if (!begin) return nullptr;
  use_arena(index, begin + size);
  auto& all = allocations();
  all.erase(all.lower_bound(begin), all.lower_bound(begin + size));  // what lay there has been freed
  all.emplace(begin, Allocation{begin, bytes, index, ++number, false});
  d.use.now += bytes;
  d.use.peak = std::max(d.use.peak, d.use.now);
  auto* p = reinterpret_cast<void*>(begin);
  if (!later) prepare_allocation(p);
  return p;
}

void prepare_allocation(const void* p) {
  const Allocation& a = allocations().at(reinterpret_cast<uintptr_t>(p));
  OpenArena open;
  auto* begin = reinterpret_cast<unsigned char*>(a.begin);
  poison(begin, a.bytes);
  std::memset(begin + a.bytes, kGuardByte, reserved(a.bytes) - a.bytes);
  if (checked) shadow_allocate(a.begin, a.bytes);
}

void release(const void* p) {
  const auto found = allocations().find(reinterpret_cast<uintptr_t>(p));
  if (found == allocations().end()) fail("free of %p, which is no device allocation", p);
  Allocation& a = found->second;
  if (a.freed)
    fail("free of allocation #%lu (%zu bytes on device %d), which was freed already", a.number, a.bytes, a.device);
  {
    OpenArena open;
    check_guard(a);
    poison(reinterpret_cast<void*>(a.begin), a.bytes);
  }
  if (checked) shadow_free(a.begin, a.bytes);
  a.freed = true;
  Device& d = device(a.device);
  d.use.now -= a.bytes;
  d.retire({a.begin, reserved(a.bytes)});
}

const Allocation* find_allocation(uintptr_t address) {
  auto& all = allocations();
  const auto after = all.upper_bound(address);
  return after == all.begin() ? nullptr : &std::prev(after)->second;
}

const Allocation* live_allocation(const void* p, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const Allocation* a = find_allocation(address);
  return a && !a->freed && address <= a->end() && bytes <= a->end() - address ? a : nullptr;
}

MemoryUse memory_use(int index) { return device(index).use; }

void reset_peaks() {
  for (Device& d : devices()) d.use.peak = d.use.now;
}

}  // namespace simgpu
