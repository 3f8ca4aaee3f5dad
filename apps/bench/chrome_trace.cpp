#include "apps/bench/parallel.h"

#include <tandem/core/error.h>

#include <nlohmann/json.hpp>

#include <map>

namespace tandem::bench {

std::string chrome_trace(const Rows& rows) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  int pids = 0;
  for (auto& row : rows) {
    std::map<std::string, int> pid_of;
    for (auto& e : row.timeline) {
      auto [at, is_new] = pid_of.try_emplace(e.who, pids);
      if (is_new) {
        ++pids;
        const std::string name =
            message(row.net, ", batch ", row.batch, ", ", setting_name(row), ", cap ", row.bucket_mb, " MB: ", e.who);
        events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", at->second}, {"args", {{"name", name}}}});
      }
      events.push_back({{"name", e.label.empty() ? e.name : e.label},
                        {"cat", e.kind},
                        {"ph", "X"},
                        {"pid", at->second},
                        {"tid", e.thread},
                        {"ts", double(e.begin_ns) / 1000},
                        {"dur", double(e.end_ns - e.begin_ns) / 1000},
                        {"args", {{"what", e.name}, {"bytes", e.bytes}}}});
    }
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace tandem::bench
