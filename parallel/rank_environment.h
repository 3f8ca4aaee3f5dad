/// Not installed. What whoever starts processes as ranks, tandem-run and spawn, tells them, all of it by environment
/// variables; and the port of their rendezvous, held until rank 0 takes it.
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/descriptor.h>

#include <map>
#include <string>
#include <vector>

namespace tandem {

struct RankEnvironment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;  // among those of this machine
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  std::string token = {};
  int threads = 1;  // of the rank's ops, unless the user has set OMP_NUM_THREADS
};
/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TANDEM_TOKEN and OMP_NUM_THREADS.
TANDEM_API std::map<std::string, std::string> variables_of(const RankEnvironment& e);

/// A free port of this address that no other program is given while this lives; the store of rank 0 can listen there.
class TANDEM_API ReservedPort {
 public:
  /// Throws CommError where the address is not this machine's.
  explicit ReservedPort(const std::string& host);
  int number() const { return number_; }

 private:
  Descriptor socket_;
  int number_ = 0;
};

/// 128 random bits in hexadecimal digits; the user's own where TANDEM_TOKEN is set.
TANDEM_API std::string make_token();

/// The cores that this process may run on, those that share more (threads of a core, cores of a socket) side by side.
TANDEM_API std::vector<int> usable_cores();
/// n runs of neighbours whose lengths differ by one at most; empty ones where there are fewer cores.
TANDEM_API std::vector<std::vector<int>> divide_cores(const std::vector<int>& cores, int n);

}  // namespace tandem
