/// What the parts of `tandem-bench parallel` share. A setting is measured in a process of its own, which prints a row
/// as a line of JSON; tables, the page and the trace are made of rows, so that all of them show the same figures.
#pragma once
#include "apps/bench/recorder.h"

#include <string>
#include <vector>

namespace tandem::bench {

/// What was measured of a setting.
struct Row {
  std::string net;
  int64_t width = 0;
  int batch = 0;                  // global
  std::string mode;               // none, dp, dp-step, ddp-threads, ddp-processes
  int replicas = 0, threads = 0;  // of each
  double bucket_mb = 0, delay_ms = 0;
  double best_ms = 0, median_ms = 0, images_s = 0;
  double efficiency = 0;  // against one replica with all cores
  double traced_ms = 0;   // the best traced step, whose split and timeline these are
  StepSplit split;
  // Of each device: the peak, with the parameters that it reads (a CPU of DataParallel reads the first one's); and what
  // of it is the optimizer's state, which DataParallel has on the first device alone.
  std::vector<double> memory_mb, optimizer_mb;
  struct Bucket {
    size_t bytes = 0;
    double ready_ms = 0;  // since backward began
  };
  std::vector<Bucket> buckets;  // of DDP
  double load = 0;
  std::vector<Event> timeline;  // from the beginning of rank 0's step

  /// The share of communication that is hidden behind computation; 0 where there is none.
  double hidden() const { return split.communication > 0 ? 1 - split.exposed / split.communication : 0; }
  /// By how much the device that needs most memory exceeds the one that needs least, the optimizer's state apart: 0.1
  /// is a tenth.
  double memory_spread() const;
};
using Rows = std::vector<Row>;

/// What a model says of more devices; see predict.h.
struct Prediction {
  std::string net;
  int64_t width = 0;
  double batch = 0, bucket_mb = 0;  // of each device
  std::string link;
  double bandwidth_gb_s = 0, latency_us = 0, speedup = 1;
  int devices = 0;
  double step_ms = 0, exposed_ms = 0, images_s = 0, efficiency = 0;
};
using Predictions = std::vector<Prediction>;

/// A line of JSON. The timeline is for the parent process alone.
std::string to_json(const Row& row, bool with_timeline);
Row row_from_json(const std::string& line);
/// With "model": true.
std::string to_json(const Prediction& prediction);

struct ParallelOptions {
  std::vector<std::string> nets = {"net"};
  int64_t width = 64;
  std::vector<int> batch_sizes = {128};
  std::vector<int> replicas = {2};
  std::vector<std::string> modes = {"dp", "dp-step", "ddp-threads", "ddp-processes"};
  std::vector<double> bucket_mb = {25};
  double delay_ms = 0;  // that each bucket of DDP spends on the wire, in addition
  int steps = 10;
  int rounds = 3;
  int threads = 0;  // of all replicas together; 0: all cores
  bool json = false;
  std::string html, trace;  // files
  int predict = 0;          // up to so many GPUs
  double bandwidth = 0, latency_us = 0, speedup = 1;
  bool one = false;  // this process measures one setting
};

int parallel(const ParallelOptions& o);

/// Measures the one setting that `o` names, and prints its row: from rank 0, where there are several.
void measure_parallel(const ParallelOptions& o);

/// A chrome-trace file (chrome://tracing, Perfetto): a process per rank of each row, a track per thread.
std::string chrome_trace(const Rows& rows);
/// One page without external references: charts, the timelines, and the predictions where there are any.
std::string html_page(const Rows& rows, const Predictions& predictions, const std::string& machine);

/// "ddp-processes 2 x 1 thread"
std::string setting_name(const Row& row);

}  // namespace tandem::bench
