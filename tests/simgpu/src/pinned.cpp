#include "pinned.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "fault_handler.h"
#include "operation.h"
#include "poison.h"
#include "range_allocator.h"
#include "settings.h"

namespace simgpu {
namespace {

constexpr size_t kSpan = size_t{1} << 34;  // of addresses; pages come as they are touched
constexpr uintptr_t kPage = 4096;

uintptr_t round_up(uintptr_t n) { return (n + kPage - 1) / kPage * kPage; }

struct InFlight {
  uintptr_t begin, end;             // the bytes
  uintptr_t first_page, pages_end;  // closed to the host; may be none
  bool device_writes;
  uint32_t lane;
  VectorClock clock;
};

struct Pinned {
  int file = -1;
  uintptr_t host = 0, executor = 0;
  RangeAllocator addresses;
  std::map<uintptr_t, size_t> live;
  std::vector<InFlight> in_flight;

  Pinned() {
    file = memfd_create("simgpu-pinned", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(kSpan)) != 0) fail("no pinned memory: %s", std::strerror(errno));
    host = map();
    executor = map();
    addresses = RangeAllocator(host, host + kSpan);
  }

  uintptr_t map() const {
    void* p = mmap(nullptr, kSpan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (p == MAP_FAILED) fail("no addresses for pinned memory: %s", std::strerror(errno));
    return reinterpret_cast<uintptr_t>(p);
  }

  bool holds(uintptr_t a) const { return a - host < kSpan; }

  // The live allocation that holds the address, or live.end().
  std::map<uintptr_t, size_t>::const_iterator around(uintptr_t a) const {
    auto after = live.upper_bound(a);
    if (after == live.begin()) return live.end();
    const auto before = std::prev(after);
    return a < before->first + before->second ? before : live.end();
  }
};

Pinned& pinned() {
  static auto& p = *new Pinned;
  return p;
}
bool exists = false;  // so that questions about other memory don't create it

void close_pages(const InFlight& f) {
  if (f.pages_end > f.first_page && !settings().runs_nothing)
    mprotect(reinterpret_cast<void*>(f.first_page), f.pages_end - f.first_page,
             f.device_writes ? PROT_NONE : PROT_READ);
}

void open_pages(const InFlight& f) {
  if (f.pages_end > f.first_page)
    mprotect(reinterpret_cast<void*>(f.first_page), f.pages_end - f.first_page, PROT_READ | PROT_WRITE);
}

bool overlap(const InFlight& a, uintptr_t begin, uintptr_t end) { return a.begin < end && begin < a.end; }

}  // namespace

void* allocate_pinned(size_t bytes) {
  Pinned& p = pinned();
  exists = true;
  const uintptr_t begin = p.addresses.allocate(round_up(bytes));
  if (!begin) return nullptr;
  p.live.emplace(begin, bytes);
  poison(reinterpret_cast<void*>(begin), bytes);
  return reinterpret_cast<void*>(begin);
}

void release_pinned(const void* address) {
  Pinned& p = pinned();
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto found = p.live.find(begin);
  if (found == p.live.end()) fail("cudaFreeHost of %p, which is no pinned allocation", address);
  const size_t size = round_up(found->second);
  fallocate(p.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(begin - p.host), off_t(size));
  p.live.erase(found);
  p.addresses.release(begin, size);
}

bool is_pinned_memory(const void* address, size_t bytes) {
  if (!exists) return false;
  const Pinned& p = pinned();
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto a = p.around(begin);
  return a != p.live.end() && bytes <= a->first + a->second - begin;
}

void* executor_view(const void* address) {
  const auto a = reinterpret_cast<uintptr_t>(address);
  if (!exists || !pinned().holds(a)) return const_cast<void*>(address);
  return reinterpret_cast<void*>(a - pinned().host + pinned().executor);
}

void put_in_flight(const void* address, size_t bytes, bool device_writes, uint32_t lane, const VectorClock& clock) {
  Pinned& p = pinned();
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + bytes;
  bool used = false;
  for (const InFlight& f : p.in_flight) {
    if (!overlap(f, begin, end)) continue;
    used = true;
    if ((device_writes || f.device_writes) && clock[f.lane] < f.clock[f.lane])
      fail("missing wait: a copy %s pinned memory %p that a copy on another stream %s, with no event between",
           device_writes ? "into" : "from", address, f.device_writes ? "writes" : "reads");
  }
  // Whole pages can be closed, and the ends of an allocation have theirs to themselves.
  const auto [allocation, size] = *p.around(begin);
  InFlight f{begin, end, round_up(begin), end / kPage * kPage, device_writes, lane, clock};
  if (begin == allocation) f.first_page = begin;
  if (end == allocation + size) f.pages_end = round_up(end);
  // A read that comes too early finds no plausible numbers there.
  if (device_writes && !used && !settings().runs_nothing) poison(executor_view(address), bytes);
  close_pages(f);
  p.in_flight.push_back(std::move(f));
  install_fault_handler();
}

void land(const VectorClock& host) {
  if (!exists) return;
  auto& flying = pinned().in_flight;
  if (flying.empty()) return;
  const auto landed = std::stable_partition(flying.begin(), flying.end(),
                                            [&](const InFlight& f) { return host[f.lane] < f.clock[f.lane]; });
  std::vector<InFlight> opened(landed, flying.end());
  if (opened.empty()) return;
  flying.erase(landed, flying.end());
  for (const InFlight& f : opened) open_pages(f);
  for (const InFlight& f : flying)
    if (!f.device_writes) close_pages(f);
  for (const InFlight& f : flying)
    if (f.device_writes) close_pages(f);
}

void explain_pinned_fault(uintptr_t a) {
  if (!exists || !pinned().holds(a)) return;
  for (const bool device_writes : {true, false})
    for (const InFlight& f : pinned().in_flight)
      if (f.device_writes == device_writes && a >= f.first_page && a < f.pages_end)
        fail("host code %s pinned memory %p while a copy %s it may still be under way: wait for the copy first",
             device_writes ? "uses" : "writes", reinterpret_cast<void*>(a), device_writes ? "into" : "from");
}

}  // namespace simgpu
