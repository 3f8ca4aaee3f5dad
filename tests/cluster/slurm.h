/// A real SLURM (Debian's slurm-wlm) on a Network: its controller on the hub, one daemon on each node. Needs root.
#pragma once
#include "tests/cluster/network.h"
#include "tests/support/environment.h"

#include <tandem/parallel/child_process.h>

#include <list>
#include <string>
#include <vector>

namespace tandem::test {

class Slurm {
 public:
  /// Returns when all nodes are idle. Throws Error, with what the daemons have logged, where they don't become so.
  explicit Slurm(const Network& network);
  /// Ends the jobs, and kills the daemons with all that they have started.
  ~Slurm();
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;

  /// The command (srun, sbatch, ...) as it is run on the hub.
  std::vector<std::string> on_hub(const std::vector<std::string>& command) const { return network_.at(0, command); }
  /// sbatch with these arguments. Returns the job's number when it has ended. Throws Error where it has not ended well.
  std::string batch(std::vector<std::string> arguments) const;

 private:
  void start(int node, const std::vector<std::string>& command);
  void stop();
  bool all_idle() const;
  std::string logs() const;

  const Network& network_;
  TemporaryFolder folder_;
  const Variable conf_;
  std::vector<ChildProcess> daemons_;
};

}  // namespace tandem::test
