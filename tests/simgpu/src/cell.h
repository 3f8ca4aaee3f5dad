/// What the checked mode knows of four bytes of device or shared memory: whether they are allocated, which of them hold
/// a value, who wrote and who read them last. From that follow the diagnoses of races, missing waits and uninitialised
/// reads. Of several readers it keeps what one entry can say: not every race is found, and none is reported that isn't
/// one.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "block.h"
#include "running.h"

namespace simgpu {

enum class AccessKind : uint8_t { read, write, atomic };

/// Who touched the cell. Operation 0: nobody.
struct Touch {
  static constexpr uint32_t kSeveralBlocks = ~0u;
  static constexpr uint16_t kSeveralWarps = 0xffff;
  static constexpr uint16_t kSeveralLanes = 0x8000;  // of the warp in the lower bits

  uint32_t operation;
  uint32_t block;
  uint16_t thread;
  uint16_t epoch;       // barriers that the block had passed
  uint16_t warp_epoch;  // and the warp
  uint8_t bytes;        // of the cell, a bit each
  bool atomic;
};

/// A touch in registers. Where it is put together, or kept, in memory, reading it back waits for the single fields to
/// arrive there: which took most of the time of an access.
struct TouchWords {
  uint64_t who, when;

  TouchWords with(uint8_t bytes) const { return {who, when | uint64_t(bytes) << 48}; }
  Touch touch() const { return std::bit_cast<Touch>(*this); }
  void store(Touch& t) const {
    std::memcpy(&t, &who, sizeof who);
    std::memcpy(&t.thread, &when, sizeof when);
  }
};
static_assert(sizeof(Touch) == sizeof(TouchWords) && offsetof(Touch, thread) == sizeof(uint64_t));

struct Cell {
  Touch write, read;
};
static_assert(sizeof(Cell) == 32);  // half a line of the cache

/// Whether the cell's memory may be used, and which of its bytes hold a value. Kept apart from the cells, whose size
/// would double.
class CellState {
 public:
  enum Memory : uint8_t { never = 0, allocated = 0x10, freed = 0x20 };

  Memory memory() const { return Memory(bits_ & 0xf0); }
  void set(Memory m) { bits_ = m; }
  bool are_initialised(uint8_t bytes) const { return (bits_ & bytes) == bytes; }
  void initialise(uint8_t bytes) { bits_ |= bytes; }
  /// As in the other cell, for these bytes.
  void copy_initialised(CellState from, uint8_t bytes) { bits_ = uint8_t((bits_ & ~bytes) | (from.bits_ & bytes)); }

 private:
  uint8_t bits_ = 0;
};

/// An access of the thread that runs, or of the operation itself, for the message.
struct CheckedAccess {
  uintptr_t address;
  size_t bytes;
  AccessKind kind;
  bool shared;
  const void* return_address;  // of the report; nullptr: not of a kernel
};

/// Calls f(begin of cell, the bits of its bytes that are covered) for all that [address, address + bytes) touches.
template <class F>
inline void for_cells(uintptr_t address, size_t bytes, F&& f) {
  const uintptr_t end = address + bytes;
  for (uintptr_t cell = address & ~uintptr_t{3}; cell < end; cell += 4) {
    const unsigned skipped = address > cell ? unsigned(address - cell) : 0;
    const unsigned covered = end - cell < 4 ? unsigned(end - cell) : 4;
    f(cell, uint8_t((1u << covered) - (1u << skipped)));
  }
}

/// A touch by whoever runs.
inline TouchWords current_touch(AccessKind kind) {
  const uint64_t atomic = uint64_t(kind == AccessKind::atomic) << 56;
  if (!block.thread) return {running.number, atomic};
  return {running.number | uint64_t(block.index) << 32, atomic | uint64_t(block.thread_index()) |
                                                            uint64_t(block.epoch) << 16 |
                                                            uint64_t(block.thread->warp_epoch) << 32};
}

/// Whether it comes after what has touched the same bytes: by a barrier where both are of one launch, else by streams
/// and events.
bool ordered_within_launch(const Touch& before, const Touch& now);
inline bool is_ordered(const Touch& before, const Touch& now, bool shared) {
  if (!before.operation || !(before.bytes & now.bytes)) return true;
  if (before.operation != now.operation) return shared || ended_before_running(before.operation);
  return (before.atomic && now.atomic) || ordered_within_launch(before, now);
}
[[noreturn]] void fail_unordered(const Touch& before, const Touch& now, const CheckedAccess& access,
                                 const char* earlier);

/// Notes a touch that doesn't replace the one before: other readers, or other atomic writers, touched the bytes as
/// well.
void merge(Touch& touch, const Touch& now);

/// Fails where the access is not ordered after those before it; notes it in the cell.
inline void touch(Cell& cell, CellState& state, TouchWords words, const CheckedAccess& access) {
  const Touch now = words.touch();
  if (!is_ordered(cell.write, now, access.shared)) fail_unordered(cell.write, now, access, "write");
  if (access.kind == AccessKind::read) {
    if (cell.read.operation == now.operation)
      merge(cell.read, now);
    else
      words.store(cell.read);
    return;
  }
  if (!is_ordered(cell.read, now, access.shared)) fail_unordered(cell.read, now, access, "read");
  // All writes before it are ordered, or atomic like it.
  if (cell.write.operation == now.operation && (now.atomic || cell.write.thread == now.thread))
    merge(cell.write, now);
  else
    words.store(cell.write);
  state.initialise(now.bytes);
}

}  // namespace simgpu
