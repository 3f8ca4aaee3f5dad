#include "apps/bench/bench.h"
#include "apps/models/models.h"

#include <tandem/tandem.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>

namespace tandem::bench {
namespace {

// Host time of each kernel over the timed steps.
struct Split {
  std::map<std::string, double> ms;
  static Split* now;
  static void add(const TimelineEvent& e) noexcept {
    if (e.kind == TimelineEvent::Kind::kernel) now->ms[std::string(e.name)] += double(e.end_ns - e.begin_ns) * 1e-6;
  }
};
Split* Split::now = nullptr;

nlohmann::ordered_json measure(const std::string& name, int batch, const StepOptions& o) {
  if (o.threads) set_num_threads(o.threads);
  manual_seed(0);
  auto net = models::make(name);
  nn::SGD optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  Tensor x = randn({batch, 3, 32, 32}).contiguous(Layout::channels_last);
  Tensor y = randint(0, 10, {batch});
  auto step = [&] {
    optimizer.zero_grad();
    Tensor loss = cross_entropy((*net)(x), y);
    loss.backward();
    optimizer.step();
  };
  const int warm_up = 3;
  auto ms = time_calls(o.steps, warm_up, step);
  nlohmann::ordered_json r = {{"net", name},
                              {"batch", batch},
                              {"threads", num_threads()},
                              {"best_ms", ms.front()},
                              {"median_ms", ms[ms.size() / 2]},
                              {"images_s", batch / ms.front() * 1e3},
                              {"peak_mb", peak_memory_mb()},
                              {"pool_mb", double(max_memory_allocated()) / 1e6}};
  if (o.split) {
    Split split;
    Split::now = &split;
    set_timeline_sink(&Split::add);
    for (int i = 0; i < o.steps; ++i) step();
    set_timeline_sink(nullptr);
    nlohmann::ordered_json kernels;
    for (auto& [kernel, total] : split.ms) kernels[kernel] = total / o.steps;
    r["kernels_ms"] = kernels;
  }
  return r;
}

}  // namespace

int step(const StepOptions& o) {
  if (o.one) {
    std::cout << measure(o.nets.front(), o.batch_sizes.front(), o).dump() << '\n';
    return 0;
  }
  if (!o.json) {
    std::cout << machine();
    std::printf("%-10s %6s %8s %10s %10s %10s %9s %9s\n", "net", "batch", "threads", "best ms", "median", "images/s",
                "peak MB", "pool MB");
  }
  for (auto& net : o.nets)
    for (int batch : o.batch_sizes) {
      std::vector<std::string> args = {"step",      "--one",
                                       "--net",     net,
                                       "--batch",   std::to_string(batch),
                                       "--steps",   std::to_string(o.steps),
                                       "--threads", std::to_string(o.threads)};
      if (o.split) args.push_back("--split");
      auto r = nlohmann::ordered_json::parse(run_self(args));
      if (o.json) {
        std::cout << r.dump() << std::endl;
        continue;
      }
      std::printf("%-10s %6d %8d %10.2f %10.2f %10.0f %9.0f %9.0f\n", net.c_str(), batch, r["threads"].get<int>(),
                  r["best_ms"].get<double>(), r["median_ms"].get<double>(), r["images_s"].get<double>(),
                  r["peak_mb"].get<double>(), r["pool_mb"].get<double>());
      if (o.split)
        for (auto& [kernel, ms] : r["kernels_ms"].items())
          std::printf("    %-36s %8.3f ms\n", kernel.c_str(), ms.get<double>());
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace tandem::bench
