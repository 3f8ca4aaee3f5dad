#include "apps/bench/bench.h"
#include "apps/bench/simulator.h"
#include "apps/models/models.h"

#include <tandem/tandem.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

namespace tandem::bench {
namespace {

// A training run whose images lie on the device.
class Training {
 public:
  Training(const std::string& name, int batch, Device d)
      : net_(models::make(name)),
        loader_(data::on_device(std::make_shared<data::Synthetic>(data::Synthetic::Options{.size = 64 * batch}), d),
                {.batch_size = batch,
                 .shuffle = true,
                 .drop_last = true,
                 .transform = data::Compose{data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip(),
                                            data::ToTensor(), data::Normalize({0.5}, {0.5})}}) {
    net_->to(d);
    optimizer_.emplace(net_->parameters(), nn::SGD::Options{.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  }
  void step() {
    optimizer_->zero_grad();
    auto b = loader_.next();
    if (!b) b = loader_.next();  // the next epoch
    cross_entropy((*net_)(b->input), b->target).backward();
    optimizer_->step();
  }

 private:
  std::unique_ptr<nn::Module> net_;
  std::optional<nn::SGD> optimizer_;
  data::DataLoader loader_;
};

// So many steps, the host waiting at the end alone: milliseconds of each.
double time_steps(int n, Device d, const std::function<void()>& step) {
  current_stream(d).synchronize();
  const auto begin = Clock::now();
  for (int i = 0; i < n; ++i) step();
  current_stream(d).synchronize();
  return milliseconds(Clock::now() - begin) / n;
}

nlohmann::ordered_json measure(const std::string& name, int batch, const StepOptions& o, bool as_graph) {
  const Device d = parse_device(o.device);
  require_device(d);
  DeviceGuard guard(d);
  manual_seed(0);
  Training training(name, batch, d);
  StepGraph graph([&] { training.step(); }, {.devices = {d}});
  const std::function<void()> step = as_graph ? std::function<void()>([&] { graph(); }) : [&] { training.step(); };
  for (int i = 0; i < 6; ++i) step();  // warm, and captured
  check(!as_graph || graph.is_captured(), "the step was not captured");
  nlohmann::ordered_json r = {{"net", name}, {"batch", batch}, {"form", as_graph ? "graph" : "eager"}};
  if (const Simulator* s = simulator()) {
    current_stream(d).synchronize();
    s->reset_counts();
    if (!o.trace.empty()) s->start_timeline();
    step();
    auto counts = nlohmann::ordered_json::parse(s->report());  // before the wait, which isn't the step's
    current_stream(d).synchronize();
    auto ran = nlohmann::ordered_json::parse(s->report());
    for (const char* of_run : {"bytes_read", "bytes_written", "flops", "peak_bytes", "operations"})
      counts[of_run] = ran[of_run];
    if (!o.trace.empty())
      check(s->write_timeline((o.trace + (as_graph ? ".graph.json" : ".eager.json")).c_str()), "[bench] ", o.trace,
            " can't be written");
    r["simulated"] = counts;
    return r;
  }
  double best = 1e30;
  for (int round = 0; round < 5; ++round) best = std::min(best, time_steps(o.steps, d, step));
  r["best_ms"] = best;
  r["images_s"] = batch / best * 1e3;
  r["pool_mb"] = double(max_memory_allocated(d)) / 1e6;
  return r;
}

void print_counts(const nlohmann::ordered_json& r) {
  const auto& c = r["simulated"];
  auto number = [&](const char* name) { return c[name].get<double>(); };
  const double launches = number("kernels") + number("library_calls") + number("device_copies") + number("fills");
  double us = 0;
  for (auto& op : c["operations"]) us += op["device_us"].get<double>();
  std::printf("%-10s %6d %6s %9.0f %7.0f %7.0f %7.0f %6.0f %11.0f %9.1f %9.1f %9.0f %10.0f\n",
              r["net"].get<std::string>().c_str(), r["batch"].get<int>(), r["form"].get<std::string>().c_str(),
              launches, number("graphs"), number("graph_nodes"), number("allocations"), number("host_waits"),
              number("host_copies"), number("bytes_read") / 1e6, number("bytes_written") / 1e6,
              number("peak_bytes") / 1e6, us);
}

void print_operations(const nlohmann::ordered_json& r) {
  auto operations = r["simulated"]["operations"].get<std::vector<nlohmann::ordered_json>>();
  std::ranges::sort(operations, std::greater<>(), [](auto& o) { return o["device_us"].template get<double>(); });
  for (auto& o : operations)
    std::printf("    %8.2f us %4.0f x %8.2f MB read %8.2f MB written  %.90s\n", o["device_us"].get<double>(),
                o["runs"].get<double>(), o["bytes_read"].get<double>() / 1e6, o["bytes_written"].get<double>() / 1e6,
                o["name"].get<std::string>().c_str());
}

}  // namespace

int device_step(const StepOptions& o) {
  require_device(parse_device(o.device));  // opens the device's library, which may be the simulator's
  if (!o.json) {
    std::cout << machine();
    if (simulator())
      std::printf(
          "a simulated GPU: counts of one warm step, and its time on a %s by bytes and arithmetic alone\n"
          "%-10s %6s %6s %9s %7s %7s %7s %6s %11s %9s %9s %9s %10s\n",
          simulator()->profile(), "net", "batch", "form", "launches", "graphs", "nodes", "allocs", "waits",
          "host copies", "MB read", "MB written", "peak MB", "device us");
    else
      std::printf("%-10s %6s %6s %10s %10s %9s\n", "net", "batch", "form", "best ms", "images/s", "pool MB");
  }
  for (auto& net : o.nets)
    for (int batch : o.batch_sizes)
      for (bool as_graph : {false, true}) {
        const auto r = measure(net, batch, o, as_graph);
        if (o.json) {
          std::cout << r.dump() << std::endl;
          continue;
        }
        if (r.contains("simulated")) {
          print_counts(r);
          if (o.split) print_operations(r);
        } else {
          std::printf("%-10s %6d %6s %10.3f %10.0f %9.0f\n", net.c_str(), batch, r["form"].get<std::string>().c_str(),
                      r["best_ms"].get<double>(), r["images_s"].get<double>(), r["pool_mb"].get<double>());
        }
        std::fflush(stdout);
      }
  return 0;
}

}  // namespace tandem::bench
