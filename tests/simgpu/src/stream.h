/// Streams: queues of operations, each with what had happened before it.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "clock.h"
#include "event.h"
#include "operation.h"

namespace simgpu {

class Capture;

/// An operation in a queue, or of a graph's launch.
struct Item {
  Operation operation{};
  Recording waits_for{}, records{};
  int device = 0;
  uint32_t number = 0;  // among all operations; given when it begins
  uint32_t lane = 0;
  VectorClock clock{};  // what had happened before it, and itself
};

struct Stream {
  int device;
  unsigned flags;
  int priority;
  uint32_t lane;
  uint32_t rank;  // by the seed
  std::deque<std::shared_ptr<Item>> queue;
  VectorClock clock;  // of all that was submitted
  Capture* capture = nullptr;
  std::vector<size_t> tail;  // the captured nodes that the next one comes after
  bool destroyed = false;
};

Stream* create_stream(int device, unsigned flags, int priority);
/// What is queued still runs.
void destroy_stream(Stream& s);
/// All that aren't destroyed, and those with work left.
const std::vector<Stream*>& streams();
void forget_finished_streams();

/// Gives the item the stream's place in time, and queues it.
void enqueue(Stream& s, Item item);
/// Queues a wait for what the event has recorded; nothing where it was never recorded.
void enqueue_wait(Stream& s, const std::shared_ptr<Event>& event);
void enqueue_record(Stream& s, const std::shared_ptr<Event>& event);

/// Closes the pinned memory of the item's copies to the host until it has waited for them.
void put_in_flight(const Item& item);

/// A new lane of time, and one that nobody will submit to again.
uint32_t create_lane();
void retire_lane(uint32_t lane);
/// The item's time is the next of its lane.
void stamp(Item& item, VectorClock& clock, uint32_t lane);

/// What the host has waited for; all submitted afterwards happens after it.
const VectorClock& host_clock();
void host_waited_for(const VectorClock& clock);

}  // namespace simgpu
