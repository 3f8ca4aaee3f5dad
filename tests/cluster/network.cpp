#include "tests/cluster/network.h"

#include "tests/support/program.h"

#include <tandem/core/error.h>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

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

constexpr std::string_view kPrefix = "tandem-";  // the process's number follows

std::string node_name(int node) { return node ? message("n", node) : "hub"; }

// What a test has left that was killed.
void remove_abandoned() {
  std::error_code none;
  for (auto& e : std::filesystem::directory_iterator("/run/netns", none)) {
    const std::string name = e.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const int pid = std::atoi(name.c_str() + kPrefix.size());
    if (pid > 0 && !std::filesystem::exists(message("/proc/", pid))) ip("netns del " + name);
  }
}

}  // namespace

Network::Network(int nodes) : nodes_(nodes) {
  remove_abandoned();
  std::string hosts = "127.0.0.1 localhost\n";
  try {
    for (int i = 0; i <= nodes; ++i) {
      hosts += message(address(i), ' ', node_name(i), '\n');
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
  write_text(this->hosts(), hosts);
}

Network::~Network() { remove(); }

void Network::remove() {
  for (int i = 0; i <= nodes_; ++i) ip("netns del " + name(i));
}

std::string Network::name(int node) const { return message(kPrefix, ::getpid(), '-', node_name(node)); }

std::string Network::address(int node) { return message("10.123.0.", node ? node : 254); }

// `ip netns exec` would give it another /sys, in which slurmd misses the control groups.
std::vector<std::string> Network::at(int node, const std::vector<std::string>& command) const {
  std::vector<std::string> words{"nsenter", "--net=/run/netns/" + name(node),
                                 "unshare", "--mount",
                                 "--uts",   "sh",
                                 "-c",      "mount --bind \"$0\" /etc/hosts && hostname \"$1\" && shift && exec \"$@\"",
                                 hosts(),   node_name(node)};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string Network::remote_shell() const {
  const std::string path = folder_ / "remote_shell";
  std::string text = "#!/bin/sh\nhost=$1\nshift\ncase $host in\n";
  for (int i = 0; i <= nodes_; ++i) {
    text += node_name(i) + ") exec";
    for (auto& word : at(i, {"sh", "-c"})) text += " '" + word + '\'';
    text += " \"$*\" ;;\n";
  }
  write_text(path, text + "esac\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

int64_t Network::bytes_sent(int node) const {
  const Finished r = ip(message("-n ", name(node), " -s -j link show eth0"));
  return nlohmann::json::parse(r.output).at(0).at("stats64").at("tx").at("bytes");
}

}  // namespace tandem::test
