/// Streams: queues of operations, each with what had happened before it.
#pragma once
#include <chrono>
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
  bool in_graph = false;
  // What it moved, as far as accesses are reported or declared: each 4 bytes once, and what it wrote itself not read.
  uint64_t bytes_read = 0, bytes_written = 0;
  double begin_us = 0, end_us = 0;                     // as estimated; the begin grows until it runs
  std::chrono::steady_clock::time_point not_before{};  // where links are delayed
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
  double ready_us = 0;  // the estimated end of all that has run
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
/// The stream in whose queue that recording, or a later one, still lies; nullptr: in none.
Stream* recorder_of(const Recording& recording);

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
