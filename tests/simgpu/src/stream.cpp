#include "stream.h"

#include <algorithm>
#include <utility>

#include "capture.h"
#include "counters.h"
#include "pinned.h"
#include "scheduler.h"
#include "settings.h"
#include "timeline.h"

namespace simgpu {
namespace {

std::vector<Stream*>& all_streams() {
  static auto& v = *new std::vector<Stream*>;
  return v;
}

VectorClock& the_host_clock() {
  static auto& c = *new VectorClock;
  return c;
}

struct Lanes {
  std::vector<uint32_t> time;  // the last given
  std::vector<uint32_t> retired;
};
Lanes& lanes() {
  static auto& l = *new Lanes;
  return l;
}

}  // namespace

std::recursive_mutex& runtime_mutex() {
  static auto& m = *new std::recursive_mutex;  // used until the last moment of the process
  return m;
}

uint32_t create_lane() {
  Lanes& l = lanes();
  // A lane is used again once the host has seen its end: nobody can mistake the new work for the old.
  for (uint32_t& lane : l.retired) {
    if (host_clock()[lane] < l.time[lane]) continue;
    const uint32_t found = lane;
    lane = l.retired.back();
    l.retired.pop_back();
    return found;
  }
  l.time.push_back(0);
  return uint32_t(l.time.size() - 1);
}

void retire_lane(uint32_t lane) { lanes().retired.push_back(lane); }

void stamp(Item& item, VectorClock& clock, uint32_t lane) {
  clock.set(lane, ++lanes().time[lane]);
  item.lane = lane;
  item.clock = clock;
}

const VectorClock& host_clock() { return the_host_clock(); }

void host_waited_for(const VectorClock& clock) {
  the_host_clock().join(clock);
  land(the_host_clock());
}

Stream* create_stream(int device, unsigned flags, int priority) {
  auto* s = new Stream{.device = device,
                       .flags = flags,
                       .priority = priority,
                       .lane = create_lane(),
                       .rank = random_below(1 << 16),
                       .queue = {},
                       .clock = {},
                       .tail = {}};
  all_streams().push_back(s);
  return s;
}

void destroy_stream(Stream& s) {
  s.destroyed = true;
  forget_finished_streams();
}

void forget_finished_streams() {
  auto& all = all_streams();
  const auto finished =
      std::stable_partition(all.begin(), all.end(), [](Stream* s) { return !s->destroyed || !s->queue.empty(); });
  std::for_each(finished, all.end(), [](Stream* s) {
    retire_lane(s->lane);
    delete s;
  });
  all.erase(finished, all.end());
}

const std::vector<Stream*>& streams() { return all_streams(); }

Stream& stream_of(cudaStream_t handle) {
  std::lock_guard lock(runtime_mutex());
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    fail("the default stream is used: all work here names a stream of its own");
  const auto found = std::find(streams().begin(), streams().end(), reinterpret_cast<Stream*>(handle));
  if (found == streams().end() || (*found)->destroyed)
    fail("%p is no stream, or one that was destroyed", static_cast<void*>(handle));
  return **found;
}

int device_of(const Stream& s) { return s.device; }
bool is_capturing(const Stream& s) { return s.capture != nullptr; }

void put_in_flight(const Item& item) {
  for (const Access& a : item.operation.accesses)
    if (is_pinned_memory(a.data, a.bytes)) put_in_flight(a.data, a.bytes, a.write, item.lane, item.clock);
}

void enqueue(Stream& s, Item item) {
  s.clock.join(host_clock());
  item.device = s.device;
  stamp(item, s.clock, s.lane);
  put_in_flight(item);
  host_queues(item);
  count_call(item);
  item.begin_us = host_time_us();
  s.queue.push_back(std::make_shared<Item>(std::move(item)));
  work_was_queued(*s.queue.back());
}

void enqueue_wait(Stream& s, const std::shared_ptr<Event>& event) {
  if (event->recorded == 0) return;
  s.clock.join(event->clock);
  enqueue(s, {.operation = {.name = "wait for an event", .step = [] { return Step::done; }, .kind = Kind::event},
              .waits_for = {event, event->recorded}});
}

void enqueue_record(Stream& s, const std::shared_ptr<Event>& event) {
  event->capture = 0;
  ++event->recorded;
  enqueue(s, {.operation = {.name = "record of an event", .step = [] { return Step::done; }, .kind = Kind::event},
              .records = {event, event->recorded}});
  event->clock = s.clock;
}

Stream* recorder_of(const Recording& recording) {
  for (Stream* s : streams())
    for (const auto& item : s->queue)
      if (item->records.event == recording.event && item->records.count >= recording.count) return s;
  return nullptr;
}

void submit(Stream& s, Operation op) {
  std::lock_guard lock(runtime_mutex());
  if (s.capture) return s.capture->add(s, std::move(op));
  enqueue(s, {.operation = std::move(op)});
}

}  // namespace simgpu
