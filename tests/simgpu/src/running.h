/// The operation that the executor runs, and what is known of those before it.
#pragma once
#include <cstdint>
#include <string>

#include "clock.h"
#include "operation.h"

namespace simgpu {

struct Item;

struct MemoryRange {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t a) const { return a - begin < end - begin; }
};

struct RunningOperation {
  Item* item = nullptr;  // nullptr: none runs
  uint32_t number = 0;   // of all that ran, from 1
  int device = 0;
  uint32_t known_before[8] = {};  // operations that had ended before it: most questions are about the same few
  MemoryRange memory{};           // of its device
  uint64_t bytes_read = 0, bytes_written = 0;  // in this step; see Item
};
extern RunningOperation running;

/// Runs a step of the item's operation; before the first, checks what it accesses. Operations of a graph run within its
/// own.
Step run_item(Item& item);

/// Bytes go from one device to another: a copy between two, or a collective.
bool crosses_link(const Operation& op);

const std::string& operation_name(uint32_t number);

/// Whether that operation had ended before whatever has this clock began, by what streams and events say.
bool ended_before(uint32_t number, const VectorClock& clock);
/// ... before the one that runs. The same one is before itself.
bool ended_before_running_at_all(uint32_t number);
inline bool ended_before_running(uint32_t number) {
  return number == running.known_before[number % 8] || number == running.number || ended_before_running_at_all(number);
}

}  // namespace simgpu
