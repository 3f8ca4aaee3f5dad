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

Cell* cells = nullptr;  // of the whole arena; pages come as they are touched

Cell& cell_at(uintptr_t address) { return cells[(address - arena_bounds.begin) / 4]; }

void create() {
  const size_t bytes = (arena_bounds.end - arena_bounds.begin) / 4 * sizeof(Cell);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("no addresses for the checks of device memory");
  madvise(p, bytes, MADV_HUGEPAGE);
  cells = static_cast<Cell*>(p);
}

uintptr_t begin_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// Calls f(cell, covered bytes) for each cell of the range.
template <class F>
void for_cells(uintptr_t address, size_t bytes, F&& f) {
  for (uintptr_t c = address & ~uintptr_t{3}; c < address + bytes; c += 4)
    f(cell_at(c), covered_bytes(c, address, bytes));
}

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

void check_initialised(const Cell& c, uint8_t bytes, const CheckedAccess& a) {
  if ((c.initialised & bytes) == bytes) return;
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

void access_range(const void* p, size_t bytes, AccessKind kind) {
  const uintptr_t address = begin_of(p);
  for_cells(address, bytes, [&, a = CheckedAccess{address, bytes, kind, false, nullptr}](Cell& c, uint8_t covered) {
    if (c.state != Cell::State::allocated) explain_unallocated(a);
    if (kind == AccessKind::read) check_initialised(c, covered, a);
    count_bytes(c, kind);
    touch(c, covered, a);
  });
}

bool is_over(const Touch& t) {
  return !t.operation || (running.item ? ended_before_running(t.operation) : ended_before(t.operation, host_clock()));
}

}  // namespace

void shadow_allocate(uintptr_t begin, size_t bytes) {
  if (!cells) create();
  const Touch by{running.item ? running.number : 0, 0, 0, 0, 0, 0xf, false};
  for_cells(begin, bytes, [&](Cell& c, uint8_t) { c = {by, {}, Cell::State::allocated, 0}; });
}

void shadow_free(uintptr_t begin, size_t bytes) {
  const Touch by{running.item ? running.number : 0, 0, 0, 0, 0, 0xf, false};
  for_cells(begin, bytes, [&](Cell& c, uint8_t) {
    for (const Touch& t : {c.write, c.read})
      if (!is_over(t))
        fail("missing wait: allocation #%lu of %zu bytes is freed while '%s' on another stream may still use it",
             find_allocation(begin)->number, bytes, operation_name(t.operation).c_str());
    c = {by, {}, Cell::State::freed, 0};
  });
}

void shadow_read(const void* p, size_t bytes) { access_range(p, bytes, AccessKind::read); }
void shadow_write(const void* p, size_t bytes) { access_range(p, bytes, AccessKind::write); }

void shadow_copy(const void* to, const void* from, size_t bytes) {
  const uintptr_t source = begin_of(from), target = begin_of(to);
  const CheckedAccess read{source, bytes, AccessKind::read, false, nullptr};
  const CheckedAccess write{target, bytes, AccessKind::write, false, nullptr};
  const bool same_phase = source % 4 == target % 4;
  for_cells(source, bytes, [&](Cell& c, uint8_t covered) {
    if (c.state != Cell::State::allocated) explain_unallocated(read);
    if (!same_phase) check_initialised(c, covered, read);
    count_bytes(c, AccessKind::read);
    touch(c, covered, read);
  });
  uintptr_t at = source & ~uintptr_t{3};
  for_cells(target, bytes, [&](Cell& c, uint8_t covered) {
    if (c.state != Cell::State::allocated) explain_unallocated(write);
    count_bytes(c, AccessKind::write);
    touch(c, covered, write);
    if (same_phase) c.initialised = uint8_t((c.initialised & ~covered) | (cell_at(at).initialised & covered));
    at += 4;
  });
}

void check_device_access(const CheckedAccess& a) {
  if (!running.memory.holds(a.address)) {
    const int owner = arena_device(a.address);
    if (!peer_access(running.device, owner))
      fail_at(a.return_address, "wrong device: the kernel runs on device %d, and uses memory of device %d at %p",
              running.device, owner, reinterpret_cast<void*>(a.address));
  }
  for_cells(a.address, a.bytes, [&](Cell& c, uint8_t covered) {
    if (c.state != Cell::State::allocated) explain_unallocated(a);
    if (a.kind != AccessKind::write) check_initialised(c, covered, a);
    count_bytes(c, a.kind);
    touch(c, covered, a);
  });
}

}  // namespace simgpu
