#include "counters.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "allocations.h"
#include "arena.h"
#include "device_profile.h"
#include "quoted.h"
#include "settings.h"

namespace simgpu {

simgpu_counts counts{};

namespace {

std::string field(const char* name, double value) {
  char text[96];
  std::snprintf(text, sizeof text, "\"%s\": %.17g", name, value);
  return text;
}

}  // namespace

namespace {

std::map<std::string, simgpu_operation_counts>& operations() {
  static auto& m = *new std::map<std::string, simgpu_operation_counts>;
  return m;
}

void count_copy(const Operation& op) {
  const Access &from = op.accesses[0], &to = op.accesses[1];
  const auto device = [](const Access& a) {
    const auto address = reinterpret_cast<uintptr_t>(a.data);
    return in_arena(address) ? arena_device(address) : -1;
  };
  if (device(from) < 0 || device(to) < 0) {
    ++counts.host_copies;
    counts.host_copy_bytes += to.bytes;
  } else if (device(from) != device(to)) {
    ++counts.peer_copies;
    counts.peer_copy_bytes += to.bytes;
  } else {
    ++counts.device_copies;
  }
}

}  // namespace

void count_call(const Item& item) {
  switch (item.operation.kind) {
    case Kind::library_call: ++counts.library_calls; break;
    case Kind::kernel: ++counts.kernels; break;
    case Kind::copy: count_copy(item.operation); break;
    case Kind::fill: ++counts.fills; break;
    case Kind::graph: ++counts.graphs; break;
    case Kind::allocation:
    case Kind::host_function:
    case Kind::event: break;
  }
}

void count_node() { ++counts.graph_nodes; }

void count_run(const Item& item, double device_us) {
  const Operation& op = item.operation;
  if (op.kind != Kind::kernel && op.kind != Kind::library_call) return;
  counts.bytes_read += item.bytes_read;
  counts.bytes_written += item.bytes_written;
  counts.flops += op.flops;
  auto [entry, is_new] = operations().try_emplace(op.name);
  simgpu_operation_counts& o = entry->second;
  if (is_new) o.name = entry->first.c_str();
  ++o.runs;
  o.bytes_read += item.bytes_read;
  o.bytes_written += item.bytes_written;
  o.flops += op.flops;
  o.device_us += device_us;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

void simgpu_get_counts(simgpu_counts* result) {
  std::lock_guard lock(runtime_mutex());
  *result = counts;
  for (int d = 0; d < settings().devices; ++d)
    result->peak_bytes = std::max<uint64_t>(result->peak_bytes, memory_use(d).peak);
}

void simgpu_reset_counts() {
  std::lock_guard lock(runtime_mutex());
  counts = {};
  operations().clear();
  reset_peaks();
}

void simgpu_for_each_operation(void (*f)(void*, const simgpu_operation_counts*), void* context) {
  std::lock_guard lock(runtime_mutex());
  for (const auto& [name, o] : operations()) f(context, &o);
}

const char* simgpu_profile() { return kProfile.name; }

const char* simgpu_report() {
  static std::string report;
  simgpu_counts c;
  simgpu_get_counts(&c);
  std::lock_guard lock(runtime_mutex());
  report = "{";
  const std::pair<const char*, double> totals[] = {{"kernels", double(c.kernels)},
                                                   {"library_calls", double(c.library_calls)},
                                                   {"device_copies", double(c.device_copies)},
                                                   {"fills", double(c.fills)},
                                                   {"host_copies", double(c.host_copies)},
                                                   {"host_copy_bytes", double(c.host_copy_bytes)},
                                                   {"peer_copies", double(c.peer_copies)},
                                                   {"peer_copy_bytes", double(c.peer_copy_bytes)},
                                                   {"graphs", double(c.graphs)},
                                                   {"graph_nodes", double(c.graph_nodes)},
                                                   {"allocations", double(c.allocations)},
                                                   {"pinned_allocations", double(c.pinned_allocations)},
                                                   {"host_waits", double(c.host_waits)},
                                                   {"peak_bytes", double(c.peak_bytes)},
                                                   {"bytes_read", double(c.bytes_read)},
                                                   {"bytes_written", double(c.bytes_written)},
                                                   {"flops", c.flops}};
  for (const auto& [name, value] : totals) report += field(name, value) + ", ";
  report += "\"operations\": [";
  const char* separator = "";
  for (const auto& [name, o] : operations()) {
    report += std::string(separator) + "{\"name\": " + quoted(o.name) + ", " + field("runs", double(o.runs)) + ", " +
              field("bytes_read", double(o.bytes_read)) + ", " + field("bytes_written", double(o.bytes_written)) +
              ", " + field("flops", o.flops) + ", " + field("device_us", o.device_us) + "}";
    separator = ", ";
  }
  report += "]}";
  return report.c_str();
}

}  // extern "C"
