/// The addresses of device memory, a span for each device. Host code can't touch them: the pages are open while the
/// executor works, or an allocation is prepared, and closed else.
#pragma once
#include <cstddef>
#include <cstdint>

namespace simgpu {

/// [begin, end) of all devices; both 0 before the first use.
struct ArenaBounds {
  uintptr_t begin, end;
};
extern ArenaBounds arena_bounds;

inline bool in_arena(uintptr_t address) { return address - arena_bounds.begin < arena_bounds.end - arena_bounds.begin; }

/// The device whose span holds the address, which is in the arena.
int arena_device(uintptr_t address);
uintptr_t arena_begin(int device);

/// From now on pages up to there are opened and closed with the others.
void use_arena(int device, uintptr_t end);

/// Device memory is open as long as one of these lives. Under the runtime's lock.
class OpenArena {
 public:
  OpenArena();
  ~OpenArena();
  OpenArena(const OpenArena&) = delete;
  OpenArena& operator=(const OpenArena&) = delete;
};

}  // namespace simgpu
