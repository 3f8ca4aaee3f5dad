#include "apps/bench/collectives.h"

#include "apps/bench/bench.h"

#include <tandem/tandem.h>

#include <nlohmann/json.hpp>

#include <sched.h>

#include <cstdio>
#include <iostream>

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;

// A core for each rank, where there are enough; the peers' do the same.
void pin(int rank) {
  cpu_set_t all, mine;
  if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) <= rank) return;
  CPU_ZERO(&mine);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && seen++ == rank) CPU_SET(cpu, &mine);
  sched_setaffinity(0, sizeof mine, &mine);
}

// Of a call, from a moment at which all ranks have come. Small ones are timed many at a time.
void measure_rank(const CollectivesOptions& o) {
  ProcessGroup& group = current_process_group();
  pin(group.rank());
  set_num_threads(1);
  Communicator& c = group.communicator();
  const std::string& op = o.ops.front();
  const int64_t bytes = o.bytes.front();
  const int together = bytes < (1 << 16) ? 200 : 1;
  Tensor t = zeros({bytes / 4}, {.device = cpu()});  // whose sums stay what they are
  auto call = [&] {
    for (int i = 0; i < together; ++i)
      if (op == "all_reduce")
        c.all_reduce(t);
      else
        c.broadcast(t, 0);
  };
  std::vector<double> ms;
  for (int i = 0; i < o.calls + 3; ++i) {
    c.barrier();
    const auto begin = Clock::now();
    call();
    const double one = milliseconds(Clock::now() - begin) / together;
    if (i >= 3) ms.push_back(one);
  }
  std::sort(ms.begin(), ms.end());
  if (group.rank() != 0) return;
  std::cout << Json{{"op", op},
                    {"bytes", bytes},
                    {"over", o.over.front()},
                    {"ranks", group.size()},
                    {"best_us", ms.front() * 1e3},
                    {"median_us", ms[ms.size() / 2] * 1e3},
                    {"gb_s", double(bytes) / ms.front() / 1e6},
                    {"load", load_average()}}
                   .dump()
            << std::endl;
}

void measure(const CollectivesOptions& o) {
  const std::string& over = o.over.front();
  if (over == "threads")
    run_replicas(o.ranks, [&](int) { measure_rank(o); });
  else
    spawn(
        [&](int) {
          auto group = init_process_group({.transport = over});
          measure_rank(o);
        },
        o.ranks);
}

Json run_one(const CollectivesOptions& o, const std::string& op, int64_t bytes, const std::string& over) {
  return Json::parse(run_self({"collectives", "--one", "--op", op, "--bytes", message(bytes), "--over", over, "--ranks",
                               message(o.ranks), "--calls", message(o.calls)}));
}

}  // namespace

int collectives(const CollectivesOptions& o) {
  if (o.one) {
    measure(o);
    return 0;
  }
  std::vector<Json> rows;
  for (int round = 0; round < o.rounds; ++round) {
    size_t i = 0;
    for (auto& op : o.ops)
      for (int64_t bytes : o.bytes)
        for (auto& over : o.over) {
          Json row = run_one(o, op, bytes, over);
          if (round == 0)
            rows.push_back(std::move(row));
          else if (row["best_us"] < rows[i]["best_us"])
            rows[i] = std::move(row);
          ++i;
        }
  }
  if (o.json) {
    for (auto& r : rows) std::cout << r.dump() << '\n';
    return 0;
  }
  std::cout << machine();
  std::printf("%-11s %12s %-8s %6s %12s %12s %9s\n", "collective", "bytes", "over", "ranks", "best us", "median us",
              "GB/s");
  for (auto& r : rows)
    std::printf("%-11s %12lld %-8s %6d %12.2f %12.2f %9.2f\n", r["op"].get<std::string>().c_str(),
                static_cast<long long>(r["bytes"].get<int64_t>()), r["over"].get<std::string>().c_str(),
                r["ranks"].get<int>(), r["best_us"].get<double>(), r["median_us"].get<double>(),
                r["gb_s"].get<double>());
  return 0;
}

}  // namespace tandem::bench
