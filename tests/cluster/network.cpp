#include "tests/cluster/network.h"

#include "tests/support/program.h"

#include <tandem/core/error.h>

#include <nlohmann/json.hpp>

#include <sstream>

#include <unistd.h>

namespace tandem::test {
namespace {

// ip with these words, as one would type them.
Finished ip(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return run_program("ip", words);
}

void must(const std::string& line) {
  const Finished r = ip(line);
  check(r.code == 0, "ip ", line, ": ", r.output);
}

}  // namespace

Network::Network(int nodes) : nodes_(nodes) {
  std::string hosts = "127.0.0.1 localhost\n";
  try {
    for (int i = 0; i <= nodes; ++i) {
      hosts += message(address(i), ' ', i ? message("n", i) : "hub", '\n');
      must("netns add " + name(i));
      must(message("-n ", name(i), " link set lo up"));
    }
    must(message("-n ", name(0), " link add bridge type bridge"));
    must(message("-n ", name(0), " addr add ", address(0), "/24 dev bridge"));
    must(message("-n ", name(0), " link set bridge up"));
    for (int i = 1; i <= nodes; ++i) {
      must(message("-n ", name(0), " link add port", i, " type veth peer name eth0 netns ", name(i)));
      must(message("-n ", name(0), " link set port", i, " master bridge up"));
      must(message("-n ", name(i), " addr add ", address(i), "/24 dev eth0"));
      must(message("-n ", name(i), " link set eth0 up"));
    }
  } catch (...) {
    remove();
    throw;
  }
  write_text(folder_ / "hosts", hosts);
}

Network::~Network() { remove(); }

void Network::remove() {
  for (int i = 0; i <= nodes_; ++i) ip("netns del " + name(i));
}

std::string Network::name(int node) const {
  return message("tandem-", ::getpid(), '-', node ? message("n", node) : "hub");
}

std::string Network::address(int node) { return message("10.123.0.", node ? node : 254); }

// `ip netns exec` would give it another /sys, in which slurmd misses the control groups.
std::vector<std::string> Network::at(int node, const std::vector<std::string>& command) const {
  std::vector<std::string> words{"nsenter",
                                 "--net=/run/netns/" + name(node),
                                 "unshare",
                                 "--mount",
                                 "sh",
                                 "-c",
                                 "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
                                 folder_ / "hosts"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

int64_t Network::bytes_sent(int node) const {
  const Finished r = ip(message("-n ", name(node), " -s -j link show eth0"));
  return nlohmann::json::parse(r.output).at(0).at("stats64").at("tx").at("bytes");
}

}  // namespace tandem::test
