/// What the checked mode knows of four bytes of device or shared memory: whether they are allocated, which of them hold
/// a value, who wrote and who read them last. From that follow the diagnoses of races, missing waits and uninitialised
/// reads. Of several readers it keeps what one entry can say: not every race is found, and none is reported that isn't
/// one.
#pragma once
#include <cstddef>
#include <cstdint>

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

struct Cell {
  enum class State : uint8_t { never, allocated, freed };

  Touch write, read;
  State state;
  uint8_t initialised;  // its bytes, a bit each
};

/// An access of the thread that runs, or of the operation itself, for the message.
struct CheckedAccess {
  uintptr_t address;
  size_t bytes;
  AccessKind kind;
  bool shared;
  const void* return_address;  // of the report; nullptr: not of a kernel
};

/// The bits of a cell's bytes that [address, address + bytes) covers, for the cell that begins at `cell`.
inline uint8_t covered_bytes(uintptr_t cell, uintptr_t address, size_t bytes) {
  const uintptr_t begin = address > cell ? address - cell : 0;
  const uintptr_t end = address + bytes < cell + 4 ? address + bytes - cell : 4;
  return uint8_t((1u << end) - (1u << begin));
}

/// Fails where the access is not ordered after those before it; notes it in the cell.
void touch(Cell& cell, uint8_t bytes, const CheckedAccess& access);

}  // namespace simgpu
