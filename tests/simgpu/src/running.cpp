#include "running.h"

#include <chrono>
#include <deque>
#include <unordered_set>
#include <vector>

#include "allocations.h"
#include "api.h"
#include "arena.h"
#include "counters.h"
#include "device.h"
#include "faults.h"
#include "settings.h"
#include "shadow.h"
#include "stream.h"
#include "timeline.h"

namespace simgpu {

RunningOperation running;

namespace {

using Time = std::chrono::steady_clock::time_point;

struct Ended {
  const std::string* name;
  uint32_t lane, time;
};

std::deque<Ended>& operations() {
  static auto& d = *new std::deque<Ended>(1);  // number 0 is none
  return d;
}

const std::string* kept(const std::string& name) {
  static auto& names = *new std::unordered_set<std::string>;
  return &*names.insert(name).first;
}

RunningOperation begin(Item& item) {
  if (!item.number) {
    operations().push_back({kept(item.operation.name), item.lane, item.clock[item.lane]});
    item.number = uint32_t(operations().size() - 1);
  }
  const uintptr_t memory = arena_begin(item.device);
  return {.item = &item,
          .number = item.number,
          .device = item.device,
          .memory = {memory, memory + settings().device_bytes}};
}

void check_range(const Access& a, const std::string& name) {
  const Allocation* in = live_allocation(a.data, a.bytes);
  if (!in)
    fail("'%s' %s %zu bytes at %p, which lie in no live allocation", name.c_str(), a.write ? "writes" : "reads",
         a.bytes, a.data);
  if (!peer_access(running.device, in->device))
    fail("'%s' on device %d %s memory of device %d", name.c_str(), running.device, a.write ? "writes" : "reads",
         in->device);
}

void check_accesses(const Operation& op) {
  std::vector<const Access*> device;
  for (const Access& a : op.accesses)
    if (in_arena(reinterpret_cast<uintptr_t>(a.data)) || !is_pinned_memory(a.data, a.bytes)) device.push_back(&a);
  if (op.kind == Kind::library_call)
    for (const Access* a : device) check_range(*a, op.name);
  if (!checked) {
    for (const Access* a : device) (a->write ? running.bytes_written : running.bytes_read) += a->bytes;
  } else if (op.kind == Kind::copy && device.size() == 2) {
    shadow_copy(device[1]->data, device[0]->data, device[0]->bytes);
  } else {
    // What is read and written was there before.
    for (const Access* a : device)
      if (!a->write) shadow_read(a->data, a->bytes);
    for (const Access* a : device)
      if (a->write) shadow_write(a->data, a->bytes);
  }
}

bool is_skipped(const Item& item) {
  const Kind kind = item.operation.kind;
  return sticky_error() || (settings().runs_nothing && (kind == Kind::kernel || kind == Kind::library_call));
}

void delay(Item& item) {
  const double ms = link_delay_ms();
  if (ms == 0 || !crosses_link(item.operation)) return;
  item.operation.waits_for_peers = true;  // so that it isn't taken for what can never run
  item.not_before =
      ms < 0 ? Time::max() : std::chrono::steady_clock::now() + std::chrono::microseconds(int64_t(1000 * ms));
}

}  // namespace

Step run_item(Item& item) {
  if (is_skipped(item)) return Step::done;
  const RunningOperation outer = running;
  const bool first = !item.number;
  running = begin(item);
  if (first) {
    delay(item);
    check_accesses(item.operation);
  }
  const bool late = item.not_before != Time{} && std::chrono::steady_clock::now() < item.not_before;
  const Step step = late ? Step::blocked : item.operation.step();
  item.bytes_read += running.bytes_read;
  item.bytes_written += running.bytes_written;
  running = outer;
  if (step == Step::done) {
    const double duration = duration_us(item);
    note_run(item, duration);
    count_run(item, duration);
  }
  return step;
}

bool crosses_link(const Operation& op) {
  if (op.kind != Kind::copy) return op.kind == Kind::library_call && op.waits_for_peers;
  const auto from = reinterpret_cast<uintptr_t>(op.accesses[0].data),
             to = reinterpret_cast<uintptr_t>(op.accesses[1].data);
  return in_arena(from) && in_arena(to) && arena_device(from) != arena_device(to);
}

const std::string& operation_name(uint32_t number) { return *operations()[number].name; }

bool ended_before(uint32_t number, const VectorClock& clock) {
  const Ended& e = operations()[number];
  return clock[e.lane] >= e.time;
}

bool ended_before_running_at_all(uint32_t number) {
  if (!ended_before(number, running.item->clock)) return false;
  running.known_before[number % 8] = number;
  return true;
}

}  // namespace simgpu
