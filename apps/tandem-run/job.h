/// Job: the ranks of this machine, from their start to their end. Once one of them fails all are ended, and restarted
/// where that was asked for.
#pragma once
#include "apps/tandem-run/options.h"
#include "apps/tandem-run/pump.h"
#include "apps/tandem-run/signals.h"
#include "apps/tandem-run/warden.h"

#include <tandem/parallel/child_process.h>
#include <tandem/parallel/rank_environment.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::launcher {

using Clock = std::chrono::steady_clock;

class Job {
 public:
  /// `folder`: for files of this launcher's own.
  Job(const Options& options, Signals& signals, Warden& warden, std::string folder);
  /// Returns the exit code.
  int run();

 private:
  struct Rank {
    int number = 0;                    // among all
    std::string log;                   // folder; empty: none is kept
    std::string verdict;               // file
    std::shared_ptr<Stream> out, err;  // those that go through the pump
    std::optional<Ended> ended = {};
    Clock::time_point end = {};
  };

  struct Verdict {
    int culprit = -1;  // rank
    std::string why = {};
  };

  void announce() const;
  void start(int attempt);
  void start_rank(int local, int attempt);
  void connect(Rank& rank, int local, ChildProcessOptions& o);
  // Returns when all have ended; true where none has failed.
  bool watch();
  void look(std::chrono::milliseconds timeout);
  void take_signal();
  bool running() const;
  void end_all();
  void report_failure(int attempt);
  std::optional<Verdict> verdict() const;
  // The local rank that failed first: the one that the others name, else the first that was seen to end; -1 for none.
  int first_to_fail(const std::optional<Verdict>& verdict) const;
  std::string last_lines(const Rank& r);

  const Options& options_;
  Signals& signals_;
  Warden& warden_;
  const std::string folder_;
  Pump pump_;
  std::optional<ReservedPort> port_;
  const std::string token_;
  std::vector<std::vector<int>> cores_;  // of each local rank
  int threads_without_cores_ = 1;

  std::vector<Rank> ranks_;
  std::vector<ChildProcess> processes_;
  std::vector<int> order_;  // local ranks as they were seen to end
  Clock::time_point began_;
  int asked_by_ = 0;  // the signal that ended this job
  Clock::time_point patience_ends_;
};

}  // namespace tandem::launcher
