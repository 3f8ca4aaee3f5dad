#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

using namespace tandem::test;
using Json = nlohmann::json;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Json> lines_of(const std::string& output) {
  std::vector<Json> lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

// Two buckets, of the last two layers and of the first.
std::vector<std::string> small_bench(std::vector<std::string> more) {
  std::vector<std::string> args = {"parallel", "--net",       "mlp",  "--batch", "12", "--replicas", "2", "--threads",
                                   "2",        "--bucket-mb", "0.05", "--steps", "1",  "--rounds",   "1"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Complete events of each thread of each process, by their begin, the longer ones first.
std::map<std::pair<int, int>, std::vector<Json>> tracks_of(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<Json>> tracks;
  for (auto& e : trace["traceEvents"])
    if (e["ph"] == "X") tracks[{e["pid"], e["tid"]}].push_back(e);
  for (auto& [id, events] : tracks)
    std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
      return a["ts"] != b["ts"] ? a["ts"] < b["ts"] : a["dur"] > b["dur"];
    });
  return tracks;
}

}  // namespace

TEST_CASE("tandem-bench parallel: a row for every way, one page without references, a trace whose events nest") {
  TemporaryFolder tmp;
  Finished r = run_program("tandem-bench", small_bench({"--json", "--html", tmp / "page.html", "--trace",
                                                        tmp / "trace.json", "--predict", "4"}));
  INFO(r.output);
  REQUIRE(r.code == 0);
  std::vector<std::string> modes;
  std::vector<Json> predicted;
  for (auto& row : lines_of(r.output)) {
    if (row.contains("model")) {
      predicted.push_back(row);
      continue;
    }
    modes.push_back(row["mode"]);
    INFO(row.dump());
    const bool alone = row["mode"] == "none";
    CHECK(row["replicas"] == (alone ? 1 : 2));
    CHECK(row["threads"] == (alone ? 2 : 1));
    CHECK(row["images_s"].get<double>() > 0);
    CHECK(row["efficiency"].get<double>() > 0);
    for (const char* part : {"data", "forward", "backward", "exposed", "optimizer"})
      CHECK(row["split"][part].get<double>() >= 0);
    CHECK(row["split"]["backward"].get<double>() > 0);
    CHECK(row["memory_mb"].size() == (alone ? 1 : 2));
    CHECK(row["memory_spread"].get<double>() < 0.1);  // the devices' need, but for the optimizer's state
    REQUIRE(row["optimizer_mb"].size() == row["memory_mb"].size());
    for (size_t i = 0; i < row["optimizer_mb"].size(); ++i) {
      const double state = row["optimizer_mb"][i];  // a momentum as large as the parameters; of dp on the first alone
      const bool has = i == 0 || row["mode"].get<std::string>().starts_with("ddp");
      CHECK(state == (has ? doctest::Approx(4e-6 * (1290 + 32896 + 786688)) : doctest::Approx(0)));
      CHECK(row["memory_mb"][i].get<double>() > 2 * 4e-6 * 820000 + state);  // parameters and gradients as well
    }
    CHECK((row["bytes"].get<double>() > 0) == !alone);
    if (!row["mode"].get<std::string>().starts_with("ddp")) continue;
    REQUIRE(row["buckets"].size() == 2);
    // The last two layers' numbers, then the first one's, with some padding.
    CHECK(std::abs(row["buckets"][0]["bytes"].get<int>() - 4 * (1290 + 32896)) < 256);
    CHECK(std::abs(row["buckets"][1]["bytes"].get<int>() - 4 * 786688) < 256);
  }
  CHECK(modes == std::vector<std::string>{"none", "dp", "dp-step", "ddp-threads", "ddp-processes"});
  REQUIRE(predicted.size() == 4);  // two links, 2 and 4 devices
  CHECK(predicted[0]["link"] == "NVLink");
  for (auto& p : predicted) {
    CHECK(p["efficiency"].get<double>() > 0);
    CHECK(p["efficiency"].get<double>() <= 1);
  }

  const std::string page = text_of(tmp / "page.html");
  for (const char* reference : {"http", "src=", "href=", "<script", "<link", "url(", "@import"}) {
    INFO(reference);
    CHECK(page.find(reference) == std::string::npos);
  }
  CHECK(count(page, "<svg") == 4 + 1 + 5 + 1);  // bars, a legend, a timeline for each row, the model's lines
  CHECK(count(page, "<svg") == count(page, "</svg>"));
  CHECK(page.find("rank 1") != std::string::npos);
  CHECK(page.find("replica 1") != std::string::npos);
  CHECK(page.find("bucket 1 of 2") != std::string::npos);
  CHECK(page.find("Not a measurement") != std::string::npos);

  std::set<std::string> kinds;
  for (auto& [track, events] : tracks_of(Json::parse(text_of(tmp / "trace.json")))) {
    std::vector<double> ends;  // of those that are open
    for (auto& e : events) {
      INFO(e.dump());
      kinds.insert(e["cat"]);
      constexpr double kNanosecond = 1e-3;
      const double begin = e["ts"], end = begin + e["dur"].get<double>();
      while (!ends.empty() && ends.back() <= begin + kNanosecond / 2) ends.pop_back();
      if (!ends.empty()) CHECK(end <= ends.back() + kNanosecond / 2);
      ends.push_back(end);
    }
  }
  CHECK(kinds == std::set<std::string>{"phase", "closure", "kernel", "collective", "ready"});
}

TEST_CASE("tandem-bench parallel: a bucket is on its way while the rest of backward is computed") {
  TemporaryFolder tmp;
  Finished r = run_program("tandem-bench", small_bench({"--mode", "ddp-threads", "ddp-processes", "--delay-ms", "5",
                                                        "--trace", tmp / "trace.json"}));
  INFO(r.output);
  REQUIRE(r.code == 0);
  CHECK(count(r.output, "with 5 ms more on the wire for each bucket: a step takes") == 2);
  CHECK(count(r.output, "ddp-threads 2 x 1") == 2);  // its row, and its delay
  const Json trace = Json::parse(text_of(tmp / "trace.json"));
  std::map<int, std::vector<double>> ready, delays;
  std::map<int, double> last_closure;
  for (auto& e : trace["traceEvents"]) {
    if (e["ph"] != "X") continue;
    const int pid = e["pid"];
    const double at = e["ts"];
    if (e["cat"] == "ready") ready[pid].push_back(at);
    if (e["cat"] == "closure") last_closure[pid] = std::max(last_closure.try_emplace(pid, at).first->second, at);
    if (e["cat"] == "delay") {
      delays[pid].push_back(at);
      CHECK(e["dur"].get<double>() >= 5000);
    }
  }
  REQUIRE(ready.size() == 4);  // two ranks as threads, two as processes
  for (auto& [pid, at] : ready) {
    REQUIRE(at.size() == 2);
    CHECK(at[0] < last_closure[pid]);  // it starts before the last closure does
    CHECK(at[1] > last_closure[pid]);
    REQUIRE(delays[pid].size() == 2);
    CHECK(delays[pid][1] >= delays[pid][0] + 5000);  // one after the other
  }
}

TEST_CASE("tandem-bench parallel: a slow link costs what a ring does") {
  Finished r =
      run_program("tandem-bench", small_bench({"--mode", "ddp-threads", "--json", "--predict", "3", "--bandwidth",
                                               "0.001", "--latency", "1000", "--speedup", "1000000"}));
  INFO(r.output);
  REQUIRE(r.code == 0);
  const Json last = lines_of(r.output).back();
  CHECK(last["devices"] == 3);
  // Two buckets by a ring of 3: 4 hops each, and 4/3 of the bytes at 1 MB/s.
  const double bytes = 4. * (1290 + 32896 + 786688);
  CHECK(last["exposed_ms"].get<double>() == doctest::Approx(2 * 4 + 4. / 3 * bytes / 1e3).epsilon(1e-3));
}

TEST_CASE("tandem-bench collectives: a row for each op, size and transport") {
  Finished r = run_program("tandem-bench",
                           {"collectives", "--bytes", "300000", "4096", "--calls", "1", "--rounds", "1", "--json"});
  INFO(r.output);
  REQUIRE(r.code == 0);
  std::set<std::string> seen;
  for (auto& row : lines_of(r.output)) {
    CHECK(row["ranks"] == 2);
    CHECK(row["best_us"].get<double>() > 0);
    CHECK(row["median_us"] >= row["best_us"]);
    seen.insert(row["op"].get<std::string>() + ' ' + row["over"].get<std::string>() + ' ' + row["bytes"].dump());
  }
  CHECK(seen.size() == 2 * 3 * 2);
  CHECK(seen.contains("all_reduce shm 4096"));
  CHECK(seen.contains("broadcast sockets 300000"));
}
