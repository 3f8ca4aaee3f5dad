/// What `tandem-run` was asked to do: torchrun's options, where they make sense here.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tandem::launcher {

/// Which of a rank's streams: "3", or "0:1,2:3" by local rank; 1 is stdout, 2 stderr, 3 both, 0 none.
struct Streams {
  int all = 0;
  std::map<int, int> of_local_rank = {};
  bool has(int local_rank, int stream) const {
    const auto own = of_local_rank.find(local_rank);
    return ((own != of_local_rank.end() ? own->second : all) & stream) != 0;
  }
  bool any() const { return all || !of_local_rank.empty(); }
};
inline constexpr int kStdout = 1, kStderr = 2;

struct Options {
  int ranks = 1;  // on this node
  int nodes = 1, node_rank = 0;
  std::string master_addr;  // empty: this machine alone
  int master_port = -1;     // 0: a free one; -1: not said
  int max_restarts = 0;
  std::string log_dir;
  Streams tee, redirects;
  bool pin = true;
  double shutdown_timeout = 30;      // seconds
  std::vector<std::string> command;  // the program and its arguments, untouched
};

/// Fills `o`. Returns the exit code where the program is already done (help was asked for, or the line is wrong: then
/// what is wrong is on stderr), else -1.
int parse(int argc, char** argv, Options& o);

}  // namespace tandem::launcher
