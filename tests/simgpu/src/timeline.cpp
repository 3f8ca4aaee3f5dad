#include "timeline.h"

#include "quoted.h"

#include <simgpu/simgpu.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "arena.h"
#include "device_profile.h"
#include "running.h"
#include "settings.h"

namespace simgpu {
namespace {

thread_local double host_us = 0;

struct Entry {
  std::string name;
  int device;
  uint32_t lane;
  double begin_us, duration_us;
};

struct Record {
  bool on = false;
  std::vector<Entry> entries;
};
Record& recorded() {
  static auto& r = *new Record;
  return r;
}

void write_at_exit() { simgpu_write_timeline(settings().trace_path); }

bool is_recorded() {
  [[maybe_unused]] static const bool asked = [] {
    if (!settings().trace_path) return false;
    recorded().on = true;
    return std::atexit(write_at_exit) == 0;
  }();
  return recorded().on;
}

// Of the call that queues it.
double host_cost_us(const Item& item) {
  switch (item.operation.kind) {
    case Kind::graph: return kProfile.graph_launch_host_us;
    case Kind::event:
    case Kind::allocation: return kProfile.event_host_us;
    default: return kProfile.launch_host_us;
  }
}

bool is_of_host(const Access& a) { return !in_arena(reinterpret_cast<uintptr_t>(a.data)); }

}  // namespace

double host_time_us() { return host_us; }
void host_queues(const Item& item) { host_us += host_cost_us(item); }
void host_waits_until(double time_us) { host_us = std::max(host_us, time_us); }

double duration_us(const Item& item) {
  const Operation& op = item.operation;
  const double launch = item.in_graph ? kProfile.graph_node_device_us : kProfile.launch_device_us;
  switch (op.kind) {
    case Kind::event:
    case Kind::allocation:
    case Kind::graph: return 0;
    case Kind::host_function: return launch;
    case Kind::copy: {
      const bool host = is_of_host(op.accesses[0]) || is_of_host(op.accesses[1]);
      const double bytes = double(op.accesses[0].bytes);
      const double seconds = host               ? bytes / kProfile.host_bytes_per_s
                             : crosses_link(op) ? bytes / kProfile.link_bytes_per_s
                                                : 2 * bytes / kProfile.bytes_per_s;
      return launch + 1e6 * seconds;
    }
    case Kind::fill: return launch + 1e6 * double(op.accesses[0].bytes) / kProfile.bytes_per_s;
    case Kind::kernel:
    case Kind::library_call: break;
  }
  const double bytes = double(item.bytes_read + item.bytes_written);
  const double memory = bytes / (op.waits_for_peers ? kProfile.link_bytes_per_s : kProfile.bytes_per_s);
  const double arithmetic = op.flops / (op.flops_per_s > 0 ? op.flops_per_s : kProfile.flops_f32);
  return launch + 1e6 * std::max(memory, arithmetic);
}

void note_run(Item& item, double duration) {
  item.end_us = std::max(item.end_us, item.begin_us + duration);
  const Kind kind = item.operation.kind;
  if (!is_recorded() || kind == Kind::event || kind == Kind::allocation || kind == Kind::graph) return;
  recorded().entries.push_back({item.operation.name, item.device, item.lane, item.begin_us, duration});
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

double simgpu_host_us() { return host_us; }

void simgpu_start_timeline() {
  std::lock_guard lock(runtime_mutex());
  recorded().on = true;
  recorded().entries.clear();
}

int simgpu_write_timeline(const char* path) {
  std::lock_guard lock(runtime_mutex());
  FILE* file = std::fopen(path, "w");
  if (!file) return 0;
  std::fprintf(file, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
  const char* separator = "\n";
  for (const Entry& e : recorded().entries) {
    std::fprintf(file,
                 "%s{\"name\": %s, \"ph\": \"X\", \"pid\": \"cuda:%d (estimated)\", \"tid\": \"stream %u\", \"ts\": "
                 "%.3f, \"dur\": %.3f}",
                 separator, quoted(e.name).c_str(), e.device, e.lane, e.begin_us, e.duration_us);
    separator = ",\n";
  }
  std::fprintf(file, "\n]}\n");
  return std::fclose(file) == 0;
}

}  // extern "C"
