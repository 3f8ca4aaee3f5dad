#include "apps/bench/charts.h"

#include <tandem/core/error.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

namespace tandem::bench {
namespace {

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tandem-bench parallel</title>\n<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;color:#222;max-width:1160px;margin:2em auto;padding:0 1em}\n"
    "table{border-collapse:collapse;font-size:11.5px}td,th{padding:2px 5px;text-align:right;border-bottom:1px solid "
    "#ddd;white-space:nowrap}\ntd:first-child,th:first-child{text-align:left}th[colspan]{text-align:center;border-"
    "bottom:"
    "1px solid #999}\nsvg text{font:12px system-ui,sans-serif;fill:#222}svg text.on{font-size:11px;fill:#fff}\n"
    ".note{color:#666;font-size:12px}summary{cursor:pointer;margin:.6em 0}\n</style></head><body>\n";

template <class RowOrPrediction>
std::string group_name(const RowOrPrediction& r) {
  return message(r.net, r.width == 64 ? "" : message(" of width ", r.width), ", batch ", r.batch);
}

// Rows of one net and batch. The cap of buckets stands with each where it differs.
struct Group {
  std::string name;
  Rows rows;

  bool one_cap() const {
    return std::all_of(rows.begin(), rows.end(), [&](auto& r) { return r.bucket_mb == rows[0].bucket_mb; });
  }
  std::string title() const { return one_cap() ? message(name, ", buckets of ", rows[0].bucket_mb, " MB") : name; }
  std::string label(const Row& r) const {
    return r.mode == "none" || one_cap() ? setting_name(r) : message(setting_name(r), ", cap ", r.bucket_mb, " MB");
  }
};

std::string cell(double v, int digits, const char* unit = "") {
  char text[64];
  std::snprintf(text, sizeof text, "<td>%.*f%s</td>", digits, v, unit);
  return text;
}

std::string list(const std::vector<double>& values) {
  std::string out;
  for (double v : values) out += message(out.empty() ? "" : ", ", int(v + 0.5));
  return message("<td>", out, "</td>");
}

std::string figures_table(const Group& group) {
  std::string out =
      "<table><tr><th></th><th colspan=\"2\">a step, ms</th><th></th><th></th><th colspan=\"5\">a traced step, "
      "ms</th><th colspan=\"3\">communication</th><th colspan=\"3\">memory of each device, MB</th><th></th></tr>\n"
      "<tr><th>setting</th><th>best</th><th>median</th><th>images/s</th><th>efficiency</th><th>data</th><th>forward</"
      "th>"
      "<th>backward</th><th>exposed</th><th>optimizer</th><th>ms</th><th>hidden</th><th>MB</th><th>peak</th><th>state</"
      "th><th>spread</th><th>load</th></tr>\n";
  for (auto& r : group.rows) {
    const StepSplit& s = r.split;
    const bool communicates = s.communication > 0;
    out += message(
        "<tr><td>", escaped(group.label(r)), "</td>", cell(r.best_ms, 2), cell(r.median_ms, 2), cell(r.images_s, 0),
        cell(r.efficiency, 3), cell(s.data, 2), cell(s.forward, 2), cell(s.backward, 2), cell(s.exposed, 2),
        cell(s.optimizer, 2), cell(s.communication, 2), communicates ? cell(r.hidden() * 100, 0, " %") : "<td>-</td>",
        cell(double(s.bytes) / 1e6, 2), list(r.memory_mb), list(r.optimizer_mb),
        r.memory_mb.size() > 1 ? cell(r.memory_spread() * 100, 1, " %") : "<td>-</td>", cell(r.load, 1), "</tr>\n");
  }
  return out + "</table>\n";
}

using Parts = std::vector<std::pair<std::string, double>>;

Parts computation(const StepSplit& s) {
  return {{"data", s.data}, {"forward", s.forward}, {"backward", s.backward}, {"optimizer", s.optimizer}};
}

template <class PartsOf>
std::string bars(const Group& group, const char* unit, double mark, PartsOf parts_of) {
  BarChart chart{unit, mark, {}};
  for (auto& r : group.rows) chart.bars.push_back({group.label(r), parts_of(r)});
  return svg_bars(chart);
}

// Devices side by side, since what counts is whether they are alike.
BarChart memory_chart(const Group& group) {
  BarChart chart{"MB", 0, {}};
  for (auto& r : group.rows)
    for (size_t i = 0; i < r.memory_mb.size(); ++i) {
      const bool several = r.memory_mb.size() > 1;
      chart.bars.push_back({message(group.label(r), several ? message(", device ", i) : ""),
                            {{"parameters, gradients, activations", r.memory_mb[i] - r.optimizer_mb[i]},
                             {"optimizer's state", r.optimizer_mb[i]}}});
    }
  return chart;
}

std::string group_section(const Group& group) {
  std::string out = message("<h2>", escaped(group.title()), "</h2>\n", figures_table(group));
  out += "<h3>Images per second</h3>\n" + bars(group, "images/s", 0, [](const Row& r) {
           return Parts{{"", r.images_s}};
         });
  out += "<h3>Scaling efficiency: images/s against one replica with all cores</h3>\n" +
         bars(group, "", 1, [](const Row& r) {
           return Parts{{"", r.efficiency}};
         });
  out += "<h3>Where a step's time goes</h3>\n" + bars(group, "ms", 0, [](const Row& r) {
           Parts parts = computation(r.split);
           parts.emplace_back("exposed communication", r.split.exposed);
           return parts;
         });
  out += "<h3>Peak memory of each device</h3>\n" + svg_bars(memory_chart(group));
  out +=
      "<h3>One step</h3>\n<p class=\"note\">The best of those that were traced, from the beginning of rank 0's on. "
      "Pointing at a bar says what it is.</p>\n" +
      svg_timeline_legend();
  for (auto& r : group.rows)
    out += message("<details", r.mode == "none" ? "" : " open", "><summary>", escaped(group.label(r)), "</summary>\n",
                   svg_timeline(r.timeline), "</details>\n");
  return out;
}

std::string delays(const Rows& rows) {
  std::string out;
  for (auto& r : rows) {
    if (r.delay_ms == 0) continue;
    double sum = r.split.communication;
    for (auto& [name, ms] : computation(r.split)) sum += ms;
    const BarChart chart{"ms",
                         sum,
                         {{"computation", computation(r.split)},
                          {"communication", {{"communication", r.split.communication}}},
                          {"the step", {{"step", r.traced_ms}}}}};
    out += message(
        "<h3>",
        escaped(message(group_name(r), ", ", setting_name(r), ", cap ", r.bucket_mb, " MB, ", r.delay_ms, " ms more")),
        "</h3>\n", svg_bars(chart));
  }
  if (out.empty()) return out;
  return "<h2>Slower buckets</h2>\n<p>Each bucket was kept on the wire for longer. From its first bucket on, a step "
         "takes "
         "what is left of computation or the time of communication, whichever is larger. Dashed: the sum of both, "
         "which "
         "it would take without overlap.</p>\n" +
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
  const double speedup = predictions.front().speedup;
  std::string out = message(
      "<h2>A model of more devices</h2>\n<p><b>Not a measurement.</b> Each device is taken to compute ",
      speedup == 1 ? "" : message(speedup, " times "),
      "as fast as a replica did here, with the same batch, and to all-reduce the same buckets by rings, each as "
      "soon as it is ready and the one before it is through: 2 (N-1) latencies and 2 (N-1)/N of its bytes over the "
      "bandwidth. Data are loaded ahead.</p>\n");
  for (auto& [name, lines] : groups)
    out += message("<h3>Efficiency over devices: ", escaped(name), "</h3>\n", svg_lines(lines));
  return out + table + "</table>\n";
}

}  // namespace

std::string html_page(const Rows& rows, const Predictions& predictions, const std::string& machine) {
  std::vector<Group> groups;  // in order
  for (auto& r : rows) {
    if (groups.empty() || groups.back().name != group_name(r)) groups.push_back({group_name(r), {}});
    groups.back().rows.push_back(r);
  }
  std::string where;
  std::istringstream lines(machine);
  for (std::string line; std::getline(lines, line);) where += (where.empty() ? "" : "; ") + line;
  std::string out = kHead;
  out +=
      message("<h1>Training on replicas</h1>\n<p class=\"note\">", escaped(where),
              "</p>\n<p class=\"note\">2 x 1: two replicas or ranks with one thread each. Batches are those of all "
              "together. Communication: while a collective is under way, waiting for slower ranks included; exposed: "
              "the part of it in which the rank computes nothing; hidden: the share in which it does; MB: of a "
              "rank's collectives. Memory: parameters count where they are read (CPUs of DataParallel share the "
              "first one's, GPUs have copies); state: the optimizer's, which DataParallel has on the first device; "
              "spread: the largest against the smallest, without that state. Load: the machine's average.</p>\n");
  for (auto& group : groups) out += group_section(group);
  return out + delays(rows) + model(predictions) + "</body></html>\n";
}

}  // namespace tandem::bench
