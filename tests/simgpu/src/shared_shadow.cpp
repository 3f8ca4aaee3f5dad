#include "shared_shadow.h"

#include <vector>

#include "fail.h"
#include "shared_memory.h"

namespace simgpu {
namespace {

struct SharedCell {
  Cell cell{};
  CellState state;
};

SharedCell* cells(size_t at_least) {
  static auto& v = *new std::vector<SharedCell>;
  if (v.size() < at_least) v.resize(at_least);
  return v.data();
}

// Cells aren't cleared between blocks: what another block or launch left in one counts as nothing.
void forget_other_blocks(SharedCell& c) {
  const auto is_other = [](const Touch& t) { return t.operation != running.number || t.block != block.index; };
  if (is_other(c.cell.write)) {
    c.cell.write = {};
    c.state.set(CellState::allocated);
  }
  if (is_other(c.cell.read)) c.cell.read = {};
}

void check(const CheckedAccess& a, uintptr_t memory, size_t first_cell, size_t memory_bytes) {
  SharedCell* all = cells(first_cell + memory_bytes / 4 + 1) + first_cell;
  const TouchWords now = current_touch(a.kind);
  for_cells(a.address, a.bytes, [&](uintptr_t at, uint8_t bytes) {
    SharedCell& c = all[(at - (memory & ~uintptr_t{3})) / 4];
    forget_other_blocks(c);
    if (a.kind != AccessKind::write && !c.state.are_initialised(bytes))
      fail_at(
          a.return_address,
          "uninitialised memory: the kernel reads %zu bytes of shared memory that its block has not written by then",
          a.bytes);
    touch(c.cell, c.state, now.with(bytes), a);
  });
}

}  // namespace

bool check_shared_access(const CheckedAccess& access) {
  const SharedPlaces& places = shared_places();
  CheckedAccess a = access;
  a.shared = true;
  if (places.dynamic.holds(a.address)) {
    const size_t offset = a.address - places.dynamic.begin;
    if (offset + a.bytes > places.dynamic_bytes)
      fail_at(a.return_address, "out of bounds: %zu bytes at offset %zu of the %zu bytes of dynamic shared memory",
              a.bytes, offset, places.dynamic_bytes);
    check(a, places.dynamic.begin, 0, places.dynamic.end - places.dynamic.begin);
    return true;
  }
  if (!places.statics.holds(a.address)) return false;
  check(a, places.statics.begin, (places.dynamic.end - places.dynamic.begin) / 4 + 1,
        places.statics.end - places.statics.begin);
  return true;
}

}  // namespace simgpu
