/// `tandem-bench collectives`: all-reduce and broadcast by themselves, between threads or processes.
#pragma once
#include <string>
#include <vector>

namespace tandem::bench {

struct CollectivesOptions {
  int ranks = 2;
  std::vector<std::string> ops = {"all_reduce", "broadcast"};
  std::vector<std::string> over = {"threads", "shm", "sockets"};
  std::vector<int64_t> bytes = {35'688'000, 4096};  // the Net's gradients, and what fits into one message
  int calls = 15;
  int rounds = 3;
  bool json = false;
  bool one = false;  // this process measures one row
};
int collectives(const CollectivesOptions& o);

}  // namespace tandem::bench
