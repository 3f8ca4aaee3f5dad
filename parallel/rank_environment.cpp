#include <tandem/core/error.h>
#include <tandem/parallel/rank_environment.h>
#include <tandem/parallel/tcp_socket.h>
#include <tandem/parallel/token.h>

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <tuple>

namespace tandem {
namespace {

int topology(int core, const char* what) {
  std::ifstream in(message("/sys/devices/system/cpu/cpu", core, "/topology/", what));
  int id = 0;
  return in >> id ? id : 0;
}

}  // namespace

std::map<std::string, std::string> variables_of(const RankEnvironment& e) {
  std::map<std::string, std::string> v{{"RANK", message(e.rank)},
                                       {"WORLD_SIZE", message(e.world_size)},
                                       {"LOCAL_RANK", message(e.local_rank)},
                                       {"LOCAL_WORLD_SIZE", message(e.local_world_size)},
                                       {"MASTER_ADDR", e.master_addr},
                                       {"MASTER_PORT", message(e.master_port)},
                                       {"TANDEM_TOKEN", e.token}};
  if (!std::getenv("OMP_NUM_THREADS")) v["OMP_NUM_THREADS"] = message(std::max(1, e.threads));
  return v;
}

ReservedPort::ReservedPort(const std::string& host) {
  const SocketAddress a = resolve(host, 0).front();
  socket_ = Descriptor(::socket(a.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Bound and not listening: another socket may bind to the port if it, too, says SO_REUSEADDR, as a store's does; and
  // the system gives it to nobody who asks for a free one.
  const int one = 1;
  const bool bound = socket_ && ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                     ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&a.storage), a.length) == 0;
  check<CommError>(bound, "no port could be reserved at ", host, ": ", std::strerror(errno));
  number_ = port_of(local_address(socket_.get()));
}

std::string make_token() {
  if (const std::string own = token_from_environment(); !own.empty()) return own;
  constexpr size_t kDigits = 128 / 4;
  return to_hex(make_nonce()).substr(0, kDigits);
}

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;  // more than 1024: left to the system
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(size_t(c), &set)) cores.push_back(c);
  std::vector<std::tuple<int, int, int>> places;
  for (int c : cores) places.emplace_back(topology(c, "physical_package_id"), topology(c, "core_id"), c);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < cores.size(); ++i) cores[i] = std::get<2>(places[i]);
  return cores;
}

std::vector<std::vector<int>> divide_cores(const std::vector<int>& cores, int n) {
  std::vector<std::vector<int>> shares(static_cast<size_t>(n));
  if (cores.size() < shares.size()) return shares;
  for (size_t i = 0; i < shares.size(); ++i)
    shares[i].assign(cores.begin() + ptrdiff_t(cores.size() * i / shares.size()),
                     cores.begin() + ptrdiff_t(cores.size() * (i + 1) / shares.size()));
  return shares;
}

}  // namespace tandem
