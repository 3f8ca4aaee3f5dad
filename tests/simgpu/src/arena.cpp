#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "fault_handler.h"
#include "operation.h"
#include "settings.h"

namespace simgpu {

ArenaBounds arena_bounds{};

namespace {

// Away from all that the system places, so that a device pointer is known by its looks.
constexpr uintptr_t kBegin = 0x200000000000;
constexpr size_t kHugePage = size_t{2} << 20;

std::array<uintptr_t, kMaxDevices> used_end{};
int open_scopes = 0;

void create() {
  const Settings& s = settings();
  const size_t bytes = s.device_bytes * size_t(s.devices);
  // The thread sanitizer knows few addresses; where it is at work nothing is executed, and nothing protected.
  void* wanted = s.runs_nothing ? nullptr : reinterpret_cast<void*>(kBegin);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted ? MAP_FIXED_NOREPLACE : 0);
  const int protection = s.runs_nothing ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* p = mmap(wanted, bytes + kHugePage, protection, flags, -1, 0);
  if (p == MAP_FAILED)
    fail("no addresses for %d devices of %zu bytes: %s", s.devices, s.device_bytes, std::strerror(errno));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(p) + kHugePage - 1) / kHugePage * kHugePage;
  // With small pages a change of protection, and the faults after it, cost a hundred times as much.
  madvise(reinterpret_cast<void*>(begin), bytes, MADV_HUGEPAGE);
  arena_bounds = {begin, begin + bytes};
  for (int d = 0; d < s.devices; ++d) used_end[size_t(d)] = arena_begin(d);
}

void protect(int device, uintptr_t end, int protection) {
  const uintptr_t begin = arena_begin(device);
  if (end > begin) mprotect(reinterpret_cast<void*>(begin), end - begin, protection);
}

void protect_all(int protection) {
  if (settings().runs_nothing) return;
  for (int d = 0; d < settings().devices; ++d) protect(d, used_end[size_t(d)], protection);
}

}  // namespace

int arena_device(uintptr_t address) { return int((address - arena_bounds.begin) / settings().device_bytes); }

uintptr_t arena_begin(int device) {
  if (!arena_bounds.begin) create();
  return arena_bounds.begin + settings().device_bytes * size_t(device);
}

void use_arena(int device, uintptr_t end) {
  uintptr_t& used = used_end[size_t(device)];
  if (end <= used) return;
  used = std::min((end + kHugePage - 1) / kHugePage * kHugePage, arena_begin(device) + settings().device_bytes);
  if (open_scopes) protect(device, used, PROT_READ | PROT_WRITE);
}

OpenArena::OpenArena() {
  if (open_scopes++ == 0) protect_all(PROT_READ | PROT_WRITE);
}

OpenArena::~OpenArena() {
  if (--open_scopes) return;
  protect_all(PROT_NONE);
  install_fault_handler();
}

}  // namespace simgpu
