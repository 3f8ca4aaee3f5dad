#include "shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "allocations.h"
#include "arena.h"
#include "device.h"
#include "fail.h"
#include "operation.h"
#include "running.h"
#include "stream.h"

namespace simgpu {

bool checked = false;

namespace {

// Of the whole arena; pages come as they are touched.
Cell* cells = nullptr;
CellState* states = nullptr;

size_t index_of(uintptr_t address) { return (address - arena_bounds.begin) / 4; }
Cell& cell_at(uintptr_t address) { return cells[index_of(address)]; }
CellState& state_at(uintptr_t address) { return states[index_of(address)]; }

template <class T>
T* create_plane() {
  const size_t bytes = (arena_bounds.end - arena_bounds.begin) / 4 * sizeof(T);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("no addresses for the checks of device memory");
  madvise(p, bytes, MADV_HUGEPAGE);
  return static_cast<T*>(p);
}

uintptr_t begin_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

[[noreturn]] void explain_unallocated(const CheckedAccess& a) {
  const char* verb = a.kind == AccessKind::read ? "reads" : a.kind == AccessKind::write ? "writes" : "updates";
  const auto* p = reinterpret_cast<void*>(a.address);
  const Allocation* near = find_allocation(a.address);
  if (!near || arena_device(near->begin) != arena_device(a.address))
    fail_at(a.return_address, "out of bounds: it %s %zu bytes at %p, where nothing was ever allocated", verb, a.bytes,
            p);
  const auto offset = a.address - near->begin;
  if (offset >= near->bytes || !near->freed)
    fail_at(a.return_address, "out of bounds: it %s %zu bytes at %p, offset %zu of allocation #%lu of %zu bytes", verb,
            a.bytes, p, offset, near->number, near->bytes);
  fail_at(a.return_address, "use after free: it %s %zu bytes at %p, offset %zu of allocation #%lu of %zu bytes, freed",
          verb, a.bytes, p, offset, near->number, near->bytes);
}

[[noreturn]] void explain_uninitialised(const CheckedAccess& a) {
  const Allocation* in = find_allocation(a.address);
  fail_at(a.return_address,
          "uninitialised memory: '%s' reads %zu bytes at %p, offset %zu of allocation #%lu of %zu bytes, which nothing "
          "has written",
          operation_name(running.number).c_str(), a.bytes, reinterpret_cast<void*>(a.address), a.address - in->begin,
          in->number, in->bytes);
}

// Each cell counts when an operation touches it first: what comes again is in the cache, at best.
void count_bytes(const Cell& c, AccessKind kind) {
  const bool written = c.write.operation == running.number;
  if (kind != AccessKind::write && !written && c.read.operation != running.number) running.bytes_read += 4;
  if (kind != AccessKind::read && !written) running.bytes_written += 4;
}

void access_cells(const CheckedAccess& a, bool reads_initialised) {
  const TouchWords now = current_touch(a.kind);
  for_cells(a.address, a.bytes, [&](uintptr_t at, uint8_t bytes) {
    CellState& state = state_at(at);
    if (state.memory() != CellState::allocated) explain_unallocated(a);
    if (reads_initialised && !state.are_initialised(bytes)) explain_uninitialised(a);
    Cell& c = cell_at(at);
    count_bytes(c, a.kind);
    touch(c, state, now.with(bytes), a);
  });
}

bool is_over(const Touch& t) {
  return !t.operation || (running.item ? ended_before_running(t.operation) : ended_before(t.operation, host_clock()));
}

}  // namespace

void shadow_allocate(uintptr_t begin, size_t bytes) {
  if (!cells) {
    cells = create_plane<Cell>();
    states = create_plane<CellState>();
  }
  const Touch by{running.item ? running.number : 0, 0, 0, 0, 0, 0xf, false};
  for_cells(begin, bytes, [&](uintptr_t at, uint8_t) {
    cell_at(at) = {by, {}};
    state_at(at).set(CellState::allocated);
  });
}

void shadow_free(uintptr_t begin, size_t bytes) {
  const Touch by{running.item ? running.number : 0, 0, 0, 0, 0, 0xf, false};
  for_cells(begin, bytes, [&](uintptr_t at, uint8_t) {
    Cell& c = cell_at(at);
    for (const Touch& t : {c.write, c.read})
      if (!is_over(t))
        fail("missing wait: allocation #%lu of %zu bytes is freed while '%s' on another stream may still use it",
             find_allocation(begin)->number, bytes, operation_name(t.operation).c_str());
    c = {by, {}};
    state_at(at).set(CellState::freed);
  });
}

void shadow_read(const void* p, size_t bytes) {
  access_cells({begin_of(p), bytes, AccessKind::read, false, nullptr}, true);
}

void shadow_write(const void* p, size_t bytes) {
  access_cells({begin_of(p), bytes, AccessKind::write, false, nullptr}, false);
}

void shadow_copy(const void* to, const void* from, size_t bytes) {
  const uintptr_t source = begin_of(from), target = begin_of(to);
  // Bytes that lie differently in their cells are not told apart.
  const bool cell_by_cell = source % 4 == target % 4;
  access_cells({source, bytes, AccessKind::read, false, nullptr}, !cell_by_cell);
  access_cells({target, bytes, AccessKind::write, false, nullptr}, false);
  if (!cell_by_cell) return;
  for_cells(target, bytes, [&](uintptr_t at, uint8_t covered) {
    state_at(at).copy_initialised(state_at(at - target + source), covered);
  });
}

void check_device_access(const CheckedAccess& a) {
  if (!running.memory.holds(a.address)) {
    const int owner = arena_device(a.address);
    if (!peer_access(running.device, owner))
      fail_at(a.return_address, "wrong device: the kernel runs on device %d, and uses memory of device %d at %p",
              running.device, owner, reinterpret_cast<void*>(a.address));
  }
  access_cells(a, a.kind != AccessKind::write);
}

}  // namespace simgpu
