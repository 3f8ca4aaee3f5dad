#include <tandem/parallel/connect_processes.h>
#include <tandem/parallel/shm_transport.h>
#include <tandem/parallel/socket_transport.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace tandem {

std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code none;  // without /proc every process is a machine of its own
  const std::string net = std::filesystem::read_symlink("/proc/self/ns/net", none).string();
  if (boot.empty() || net.empty()) return message("process ", getpid());
  return message(boot, ' ', net, " user ", getuid());
}

std::vector<std::string> machines_of(StoreMembership& membership, const std::shared_ptr<Channel>& channel) {
  const Header nothing{};
  const std::string label = "who is on which machine";
  Wait wait(membership, *channel, nothing, label, membership.timeout());
  auto key = [&](int rank) { return message("machine/", channel->name, '/', rank); };
  membership.put(key(membership.rank()), machine_identity());
  std::vector<std::string> machines;
  for (int rank : channel->members) machines.push_back(membership.get(key(rank), wait));
  return machines;
}

TransportFactory transport_factory(const std::string& kind, const std::string& token) {
  check(kind == "auto" || kind == "shm" || kind == "sockets", "[init_process_group] transport '", kind,
        "': there are auto, shm and sockets");
  return [kind, token](StoreMembership& m, const std::shared_ptr<Channel>& channel) -> std::unique_ptr<Transport> {
    const auto machines = machines_of(m, channel);
    const auto other = std::find_if(machines.begin(), machines.end(), [&](auto& s) { return s != machines[0]; });
    check<CommError>(kind != "shm" || other == machines.end(), "[init_process_group] transport shm: rank ",
                     channel->members[0], " is on '", machines[0], "', rank ",
                     other == machines.end() ? -1 : channel->members[size_t(other - machines.begin())], " is not");
    if (kind != "sockets" && other == machines.end()) return std::make_unique<ShmTransport>(m, channel, m);
    return std::make_unique<SocketTransport>(m, channel, m, m.local_host(), token);
  };
}

}  // namespace tandem
