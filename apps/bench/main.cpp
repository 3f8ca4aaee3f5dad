/// tandem-bench: speed and memory, in tables and as JSON lines.
#include "apps/bench/bench.h"
#include "apps/bench/collectives.h"
#include "apps/bench/parallel.h"
#include "apps/heap.h"

#include <CLI/CLI.hpp>

#include <iostream>

using namespace tandem::bench;

namespace {

CLI::App* add_parallel(CLI::App& app, ParallelOptions& o) {
  auto* c = app.add_subcommand("parallel",
                               "training on replicas: DataParallel against DistributedDataParallel, against one "
                               "replica with all cores");
  c->add_option("--net", o.nets, "net, resnet18, mlp, small")->capture_default_str();
  c->add_option("--width", o.width, "channels of the net's first convolution")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  c->add_option("--batch", o.batch_sizes, "of all replicas together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  c->add_option("--replicas", o.replicas)->check(CLI::PositiveNumber)->capture_default_str();
  c->add_option("--mode", o.modes, "dp, dp-step, ddp-threads, ddp-processes; none: the one replica alone")
      ->check(CLI::IsMember({"none", "dp", "dp-step", "ddp-threads", "ddp-processes"}))
      ->capture_default_str();
  c->add_option("--bucket-mb", o.bucket_mb, "caps of buckets")->check(CLI::PositiveNumber)->capture_default_str();
  c->add_option("--delay-ms", o.delay_ms, "that each bucket of DDP is under way for longer")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--steps", o.steps, "timed steps, best counts")->check(CLI::PositiveNumber)->capture_default_str();
  c->add_option("--rounds", o.rounds, "over all settings, best counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  c->add_option("--threads", o.threads, "of all replicas together; 0: all cores")->capture_default_str();
  c->add_flag("--json", o.json, "a JSON line for each row");
  c->add_option("--html", o.html, "writes charts and the timelines of a step as one page");
  c->add_option("--trace", o.trace, "writes the timelines as a chrome-trace file");
  c->add_option("--predict", o.predict, "extends the table to so many GPUs, by a model of the cost")
      ->check(CLI::Range(2, 1 << 20));
  c->add_option("--bandwidth", o.bandwidth, "of their link, GB/s in one direction; else NVLink's and Ethernet's")
      ->check(CLI::PositiveNumber);
  c->add_option("--latency", o.latency_us, "of a hop, in us")->check(CLI::NonNegativeNumber);
  c->add_option("--speedup", o.speedup, "how many times faster than a replica here a GPU computes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  c->add_flag("--one", o.one)->group("");
  return c;
}

CLI::App* add_collectives(CLI::App& app, CollectivesOptions& o) {
  auto* c = app.add_subcommand("collectives", "all-reduce and broadcast, between threads or processes");
  c->add_option("--ranks", o.ranks)->check(CLI::PositiveNumber)->capture_default_str();
  c->add_option("--op", o.ops)->check(CLI::IsMember({"all_reduce", "broadcast"}))->capture_default_str();
  c->add_option("--over", o.over, "threads, or processes by shm or sockets")
      ->check(CLI::IsMember({"threads", "shm", "sockets"}))
      ->capture_default_str();
  c->add_option("--bytes", o.bytes)->check(CLI::PositiveNumber)->capture_default_str();
  c->add_option("--calls", o.calls, "timed, best counts")->check(CLI::PositiveNumber)->capture_default_str();
  c->add_option("--rounds", o.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  c->add_flag("--json", o.json, "a JSON line for each row");
  c->add_flag("--one", o.one)->group("");
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  tandem::return_large_blocks();
  CLI::App app{"Measures speed and memory. Other load on the machine shows in the figures: best of several.",
               "tandem-bench"};
  app.require_subcommand(1);
  bool json = false;

  StepOptions o;
  auto* c_step = app.add_subcommand("step", "a whole training step: nets x batch sizes");
  c_step->add_option("--net", o.nets, "net, resnet18, mlp, small")->capture_default_str();
  c_step->add_option("--batch", o.batch_sizes)->check(CLI::PositiveNumber)->capture_default_str();
  c_step->add_option("--steps", o.steps, "timed steps, best counts")->check(CLI::PositiveNumber)->capture_default_str();
  c_step->add_option("--threads", o.threads, "0: all cores")->capture_default_str();
  c_step->add_flag("--split", o.split, "also the time of each kernel");
  c_step->add_flag("--json", o.json, "a JSON line for each row");
  c_step->add_option("--device", o.device, "cpu, cuda, cuda:1 ...; ./run tandem-bench also takes sim")
      ->capture_default_str();
  c_step->add_option("--trace", o.trace,
                     "on a simulated GPU: writes the predicted timeline of a step, as a chrome trace");
  c_step->add_flag("--one", o.one)->group("");

  auto* c_ops = app.add_subcommand("ops", "single ops, forward and backward (Google Benchmark)");
  c_ops->prefix_command();
  auto* c_toy = app.add_subcommand("toy", "a whole training step of tiny models, in microseconds");
  c_toy->add_flag("--json", json);
  auto* c_data = app.add_subcommand("data", "crop, flip, normalise: images per second on one core");
  c_data->add_flag("--json", json);
  int runs = 5;
  auto* c_start = app.add_subcommand("start", "from the start of a process to the end of its first step");
  c_start->add_option("--runs", runs)->check(CLI::PositiveNumber)->capture_default_str();
  c_start->add_flag("--json", json);
  auto* c_first = app.add_subcommand("first-step", "")->group("");

  ParallelOptions p;
  auto* c_parallel = add_parallel(app, p);
  CollectivesOptions k;
  auto* c_collectives = add_collectives(app, k);

  CLI11_PARSE(app, argc, argv);
  try {
    if (*c_step) return o.device == "cpu" ? step(o) : device_step(o);
    if (*c_ops) return ops(c_ops->remaining());
    if (*c_toy) return toy(json);
    if (*c_data) return data(json);
    if (*c_start) return start(runs, json);
    if (*c_parallel) return parallel(p);
    if (*c_collectives) return collectives(k);
    if (*c_first) return first_step();
  } catch (const std::exception& e) {
    std::cerr << "tandem-bench: " << e.what() << '\n';
    return 1;
  }
  return 2;
}
