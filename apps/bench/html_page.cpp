#include "apps/bench/charts.h"

#include <tandem/core/error.h>

#include <cstdio>
#include <map>

namespace tandem::bench {
namespace {

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tandem-bench parallel</title>\n<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;color:#222;max-width:1120px;margin:2em auto;padding:0 1em}\n"
    "table{border-collapse:collapse;font-size:12px}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid "
    "#ddd}\ntd:first-child,th:first-child{text-align:left}svg text{font:12px system-ui,sans-serif;fill:#222}\n"
    ".note{color:#666;font-size:12px}summary{cursor:pointer;margin:.6em 0}\n</style></head><body>\n";

template <class RowOrPrediction>
std::string group_name(const RowOrPrediction& r) {
  return message(r.net, r.width == 64 ? "" : message(" of width ", r.width), ", batch ", r.batch);
}

std::string bar_label(const Row& r) {
  return message(setting_name(r), r.mode == "none" ? "" : message(", cap ", r.bucket_mb, " MB"));
}

std::string cell(double v, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "<td>%.*f</td>", digits, v);
  return text;
}

std::string figures_table(const Rows& rows) {
  std::string out =
      "<table><tr><th>setting</th><th>best ms</th><th>median</th><th>images/s</th><th>efficiency</th><th>data</th>"
      "<th>forward</th><th>backward</th><th>exposed</th><th>optimizer</th><th>comm. ms</th><th>hidden</th>"
      "<th>MB/step</th><th>MB of each device</th><th>load</th></tr>\n";
  for (auto& r : rows) {
    const StepSplit& s = r.split;
    std::string memory;
    for (double mb : r.memory_mb) memory += message(memory.empty() ? "" : ", ", int(mb + 0.5));
    out += message("<tr><td>", escaped(bar_label(r)), "</td>", cell(r.best_ms, 2), cell(r.median_ms, 2),
                   cell(r.images_s, 0), cell(r.efficiency, 3), cell(s.data, 2), cell(s.forward, 2), cell(s.backward, 2),
                   cell(s.exposed, 2), cell(s.optimizer, 2), cell(s.communication, 2),
                   s.communication > 0 ? cell(r.hidden(), 2) : "<td>-</td>", cell(double(s.bytes) / 1e6, 2), "<td>",
                   memory, "</td>", cell(r.load, 1), "</tr>\n");
  }
  return out + "</table>\n";
}

using Parts = std::vector<std::pair<std::string, double>>;

Parts computation(const StepSplit& s) {
  return {{"data", s.data}, {"forward", s.forward}, {"backward", s.backward}, {"optimizer", s.optimizer}};
}

template <class PartsOf>
std::string bars(const Rows& rows, const char* unit, double mark, PartsOf parts_of) {
  BarChart chart{unit, mark, {}};
  for (auto& r : rows) chart.bars.push_back({bar_label(r), parts_of(r)});
  return svg_bars(chart);
}

std::string group_section(const std::string& name, const Rows& rows) {
  std::string out = message("<h2>", escaped(name), "</h2>\n", figures_table(rows));
  out += "<h3>Images per second</h3>\n" + bars(rows, "images/s", 0, [](const Row& r) {
           return Parts{{"", r.images_s}};
         });
  out += "<h3>Scaling efficiency, against one replica with all cores</h3>\n" + bars(rows, "", 1, [](const Row& r) {
           return Parts{{"", r.efficiency}};
         });
  out += "<h3>Where a step's time goes</h3>\n" + bars(rows, "ms", 0, [](const Row& r) {
           Parts parts = computation(r.split);
           parts.emplace_back("exposed communication", r.split.exposed);
           return parts;
         });
  out += "<h3>Peak memory, by device</h3>\n" + bars(rows, "MB", 0, [](const Row& r) {
           Parts parts;
           for (double mb : r.memory_mb) parts.emplace_back(message("device ", parts.size()), mb);
           return parts;
         });
  out +=
      "<h3>One step</h3>\n<p class=\"note\">Its best traced step. A closure is a gradient's computation. Pointing at a "
      "bar says what it is.</p>\n";
  for (auto& r : rows)
    out += message("<details", r.mode == "none" ? "" : " open", "><summary>", escaped(bar_label(r)), "</summary>\n",
                   svg_timeline(r.timeline), "</details>\n");
  return out;
}

std::string delays(const Rows& rows) {
  std::string out;
  for (auto& r : rows) {
    if (r.delay_ms == 0) continue;
    const BarChart chart{"ms",
                         0,
                         {{"computation", computation(r.split)},
                          {"communication", {{"", r.split.communication}}},
                          {"the step", {{"", r.traced_ms}}}}};
    out += message("<h3>", escaped(group_name(r)), ", ", escaped(bar_label(r)), "</h3>\n", svg_bars(chart));
  }
  if (out.empty()) return out;
  return "<h2>Slower buckets</h2>\n<p>Each bucket was kept on the wire for longer. A step takes about the larger of "
         "computation and communication, not their sum.</p>\n" +
         out;
}

std::string model(const Predictions& predictions) {
  if (predictions.empty()) return {};
  std::map<std::string, std::vector<Line>> groups;
  std::string table =
      "<table><tr><th>net, batch of each</th><th>link</th><th>GB/s</th><th>us</th><th>devices</th><th>step ms</th>"
      "<th>exposed</th><th>images/s</th><th>efficiency</th></tr>\n";
  for (auto& p : predictions) {
    const std::string group = message(group_name(p), " each, cap ", p.bucket_mb, " MB");
    auto& lines = groups[group];
    if (lines.empty() || lines.back().name != p.link) lines.push_back({p.link, {}});
    lines.back().points.emplace_back(p.devices, p.efficiency);
    table += message("<tr><td>", escaped(group), "</td><td>", escaped(p.link), "</td>", cell(p.bandwidth_gb_s, 1),
                     cell(p.latency_us, 1), cell(p.devices, 0), cell(p.step_ms, 3), cell(p.exposed_ms, 3),
                     cell(p.images_s, 0), cell(p.efficiency, 3), "</tr>\n");
  }
  std::string out = message(
      "<h2>A model of more devices</h2>\n<p><b>Not a measurement.</b> Each device is taken to compute ",
      predictions.front().speedup,
      " times as fast as a replica did here, with the same batch, and to all-reduce the same buckets by rings, each as "
      "soon as it is ready and the one before it is through: 2 (N-1) latencies and 2 (N-1)/N of its bytes over the "
      "bandwidth. Data are loaded ahead.</p>\n");
  for (auto& [name, lines] : groups)
    out += message("<h3>Efficiency over devices: ", escaped(name), "</h3>\n", svg_lines(lines));
  return out + table + "</table>\n";
}

}  // namespace

std::string html_page(const Rows& rows, const Predictions& predictions, const std::string& machine) {
  std::vector<std::pair<std::string, Rows>> groups;  // in order
  for (auto& r : rows) {
    if (groups.empty() || groups.back().first != group_name(r)) groups.push_back({group_name(r), {}});
    groups.back().second.push_back(r);
  }
  std::string out = kHead;
  out += message("<h1>Training on replicas</h1>\n<p class=\"note\">", escaped(machine),
                 "</p>\n<p class=\"note\">Split in ms of a traced step. Communication: while a collective is under "
                 "way, waiting for slower ranks included; exposed: the part of it in which the rank computes nothing; "
                 "hidden: the share in which it does. MB/step: of a rank's collectives.</p>\n");
  for (auto& [name, group] : groups) out += group_section(name, group);
  return out + delays(rows) + model(predictions) + "</body></html>\n";
}

}  // namespace tandem::bench
