/// What the parts of tandem-bench share: each part is a subcommand in a file of its own.
#pragma once
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace tandem::bench {

struct StepOptions {
  std::vector<std::string> nets = {"net", "resnet18", "mlp", "small"};
  std::vector<int> batch_sizes = {128};
  int steps = 15;
  int threads = 0;
  bool split = false;  // time over kernels
  std::string device = "cpu";
  std::string trace;  // of a simulated GPU's step: a file for its timeline
  bool json = false;
  bool one = false;  // this process measures one row: its peak memory is the row's
};

int step(const StepOptions& o);
/// The same on a GPU, its images there, eagerly and as a graph; on a simulated one with what the step asks of it.
int device_step(const StepOptions& o);
int toy(bool json);
int data(bool json);
int start(int runs, bool json);
/// Builds the Net, takes one step and says "ready": what `start` times.
int first_step();
/// Google Benchmark's own options are `args`.
int ops(std::vector<std::string> args);

using Clock = std::chrono::steady_clock;
inline double milliseconds(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// Times f() `n` times, in milliseconds, sorted; the first `warm_up` calls are not counted.
template <class F>
std::vector<double> time_calls(int n, int warm_up, F&& f) {
  std::vector<double> ms;
  for (int i = 0; i < warm_up + n; ++i) {
    auto t = Clock::now();
    f();
    if (i >= warm_up) ms.push_back(milliseconds(Clock::now() - t));
  }
  std::sort(ms.begin(), ms.end());
  return ms;
}

/// Runs this program again with other arguments and returns what it printed. Throws Error where it fails.
std::string run_self(const std::vector<std::string>& args);

/// "linux, 2 cores, load 0.3" and the library's build_info: printed above every table.
std::string machine();
double load_average();
/// Peak resident memory of this process so far, in MB.
double peak_memory_mb();

}  // namespace tandem::bench
