#include "apps/bench/parallel.h"

#include "apps/bench/bench.h"
#include "apps/bench/predict.h"

#include <tandem/core/error.h>
#include <tandem/core/parallel_for.h>

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>

namespace tandem::bench {
namespace {

// Every setting asked for, each after the one that it is compared with: one replica with all cores.
std::vector<ParallelOptions> settings(const ParallelOptions& o) {
  std::vector<ParallelOptions> all;
  auto add = [&](const std::string& net, int batch, int replicas, const std::string& mode, double mb) {
    ParallelOptions s = o;
    s.nets = {net};
    s.batch_sizes = {batch};
    s.replicas = {replicas};
    s.modes = {mode};
    s.bucket_mb = {mb};
    if (!mode.starts_with("ddp")) s.delay_ms = 0;
    all.push_back(std::move(s));
  };
  for (auto& net : o.nets)
    for (int batch : o.batch_sizes) {
      add(net, batch, 1, "none", o.bucket_mb.front());
      for (int replicas : o.replicas)
        for (auto& mode : o.modes)
          for (double mb : o.bucket_mb)
            if (mode != "none") add(net, batch, replicas, mode, mb);
    }
  return all;
}

Row run_one(const ParallelOptions& s) {
  const std::string out = run_self({"parallel",    "--one",
                                    "--net",       s.nets.front(),
                                    "--width",     message(s.width),
                                    "--batch",     message(s.batch_sizes.front()),
                                    "--replicas",  message(s.replicas.front()),
                                    "--mode",      s.modes.front(),
                                    "--bucket-mb", message(s.bucket_mb.front()),
                                    "--delay-ms",  message(s.delay_ms),
                                    "--steps",     message(s.steps),
                                    "--threads",   message(s.threads)});
  return row_from_json(out);
}

void show_progress(const std::string& text) {
  if (isatty(STDERR_FILENO)) std::cerr << text << std::string(text.size() < 50 ? 50 - text.size() : 0, ' ') << '\r';
}

// Round by round, so that other load on the machine hits all alike; each setting's best round counts.
Rows measure(const ParallelOptions& o) {
  const auto all = settings(o);
  Rows rows(all.size());
  for (int round = 0; round < o.rounds; ++round)
    for (size_t i = 0; i < all.size(); ++i) {
      show_progress(message("round ", round + 1, " of ", o.rounds, ", setting ", i + 1, " of ", all.size()));
      Row row = run_one(all[i]);
      if (round == 0 || row.best_ms < rows[i].best_ms) rows[i] = std::move(row);
    }
  show_progress("");
  double alone = 0;
  for (auto& row : rows) {
    if (row.mode == "none") alone = row.images_s;
    row.efficiency = row.images_s / alone;
  }
  return rows;
}

void print_table(const Rows& rows) {
  std::printf("%-9s %5s %6s %-22s %6s | %8s %8s %8s %6s | %6s %7s %8s %8s %6s | %7s %7s %8s  %s\n", "net", "width",
              "batch", "replicas", "cap MB", "best ms", "median", "images/s", "effic.", "data", "forward", "backward",
              "exposed", "optim.", "comm ms", "hidden", "MB/step", "MB of each device (optimizer's state), spread");
  for (auto& r : rows) {
    const StepSplit& s = r.split;
    const std::string hidden = s.communication > 0 ? message(int(r.hidden() * 100 + 0.5), " %") : "-";
    std::printf("%-9s %5d %6d %-22s %6g | %8.2f %8.2f %8.0f %6.3f | %6.2f %7.2f %8.2f %8.2f %6.2f | %7.2f %7s %8.2f ",
                r.net.c_str(), int(r.width), r.batch, setting_name(r).c_str(), r.bucket_mb, r.best_ms, r.median_ms,
                r.images_s, r.efficiency, s.data, s.forward, s.backward, s.exposed, s.optimizer, s.communication,
                hidden.c_str(), double(s.bytes) / 1e6);
    for (size_t i = 0; i < r.memory_mb.size(); ++i) std::printf(" %.0f (%.0f)", r.memory_mb[i], r.optimizer_mb[i]);
    if (r.memory_mb.size() > 1) std::printf(", %.1f %%", r.memory_spread() * 100);
    std::printf("\n");
  }
  std::printf(
      "\neffic.: images/s against one replica with all cores. The split, in ms, is of a traced step. comm: while a "
      "collective is under way,\nwaiting for slower ranks included; exposed: the part of it in which the rank computes "
      "nothing. MB/step: of a rank's collectives.\nMB of each device: its peak; "
      "in parentheses the part that is the optimizer's state, which DataParallel has on the first device. Parameters "
      "count\nwhere they are read: CPUs of DataParallel share the first one's, GPUs have copies. Spread: the largest "
      "against the smallest, without that state.\n");
}

void print_delay(const Rows& rows) {
  for (auto& r : rows) {
    if (r.delay_ms == 0) continue;
    const StepSplit& s = r.split;
    const double compute = s.data + s.forward + s.backward + s.optimizer;
    std::printf(
        "%s, batch %d, cap %g MB, with %g ms more on the wire for each bucket: a step takes %.1f ms. Computation %.1f, "
        "communication %.1f: the larger is %.1f, the sum %.1f.\n",
        setting_name(r).c_str(), r.batch, r.bucket_mb, r.delay_ms, r.traced_ms, compute, s.communication,
        std::max(compute, s.communication), compute + s.communication);
  }
}

void print_predictions(const Predictions& all) {
  if (all.empty()) return;
  std::printf(
      "\nA model, not a measurement: each device computes %g times as fast as a replica here, its batch stays the "
      "same, "
      "and buckets are all-reduced\nby rings while backward goes on.\n%-9s %5s %8s %6s %-20s %9s %8s | %7s %9s %9s "
      "%10s "
      "%6s\n",
      all.front().speedup, "net", "width", "batch", "cap MB", "link", "GB/s", "us", "devices", "step ms", "exposed",
      "images/s", "effic.");
  for (auto& p : all)
    std::printf("%-9s %5d %8g %6g %-20s %9g %8g | %7d %9.3f %9.3f %10.0f %6.3f\n", p.net.c_str(), int(p.width), p.batch,
                p.bucket_mb, p.link.c_str(), p.bandwidth_gb_s, p.latency_us, p.devices, p.step_ms, p.exposed_ms,
                p.images_s, p.efficiency);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  check<IoError>(bool(out), "can't write ", path);
}

}  // namespace

double Row::memory_spread() const {
  double least = 0, most = 0;
  for (size_t i = 0; i < memory_mb.size(); ++i) {
    const double mb = memory_mb[i] - optimizer_mb[i];
    least = i ? std::min(least, mb) : mb;
    most = std::max(most, mb);
  }
  return least > 0 ? most / least - 1 : 0;
}

std::string setting_name(const Row& r) {
  return message(r.mode == "none" ? "alone" : r.mode, ' ', r.replicas, " x ", r.threads);
}

int parallel(const ParallelOptions& options) {
  ParallelOptions o = options;
  if (o.one) {
    measure_parallel(o);
    return 0;
  }
  if (!o.threads) o.threads = num_threads();
  const std::string where = machine();
  const Rows rows = measure(o);
  const Predictions predictions = o.predict > 1 ? predict(rows, o) : Predictions();
  if (o.json) {
    for (auto& row : rows) std::cout << to_json(row, false) << '\n';
    for (auto& p : predictions) std::cout << to_json(p) << '\n';
  } else {
    std::cout << where;
    print_table(rows);
    print_delay(rows);
    print_predictions(predictions);
  }
  if (!o.html.empty()) write_file(o.html, html_page(rows, predictions, where));
  if (!o.trace.empty()) write_file(o.trace, chrome_trace(rows));
  return 0;
}

}  // namespace tandem::bench
