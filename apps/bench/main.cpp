/// tandem-bench: speed and memory, in tables and as JSON lines.
#include "apps/bench/bench.h"
#include "apps/heap.h"

#include <CLI/CLI.hpp>

#include <iostream>

using namespace tandem::bench;

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

  CLI11_PARSE(app, argc, argv);
  try {
    if (*c_step) return step(o);
    if (*c_ops) return ops(c_ops->remaining());
    if (*c_toy) return toy(json);
    if (*c_data) return data(json);
    if (*c_start) return start(runs, json);
    if (*c_first) return first_step();
  } catch (const std::exception& e) {
    std::cerr << "tandem-bench: " << e.what() << '\n';
    return 1;
  }
  return 2;
}
