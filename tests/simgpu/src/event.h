/// Events: a place in a stream that others wait for.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "clock.h"

namespace simgpu {

class Capture;

struct Event {
  int device = 0;
  bool timed = true;
  uint64_t recorded = 0;   // how often
  uint64_t completed = 0;  // which recording the device has reached
  VectorClock clock;       // of the last recording
  double time_us = 0;      // when that was reached, as estimated
  uint64_t capture = 0;    // the capture that it was last recorded in; 0: none
  std::vector<size_t> nodes;
};

/// An event as it was recorded the count-th time; none where the event is null.
struct Recording {
  std::shared_ptr<Event> event;
  uint64_t count = 0;

  bool reached() const { return !event || event->completed >= count; }
};

std::shared_ptr<Event> create_event(int device, bool timed);
/// Fails loudly for one that was destroyed.
std::shared_ptr<Event> event_of(cudaEvent_t handle);
void destroy_event(cudaEvent_t handle);

}  // namespace simgpu
