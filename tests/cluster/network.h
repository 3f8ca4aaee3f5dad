/// Several machines on this one: network namespaces that a bridge connects. Needs root.
#pragma once
#include "tests/support/temporary_folder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::test {

/// Nodes n1, n2, ... with addresses of their own, and a hub, where daemons may run. They are in one another's hosts
/// file. Gone, with their interfaces, when this goes.
class Network {
 public:
  explicit Network(int nodes);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// The command as it is run on that node; 0 is the hub.
  std::vector<std::string> at(int node, const std::vector<std::string>& command) const;
  static std::string address(int node);
  /// A command that is used as ssh is: `remote_shell n2 COMMAND...`.
  std::string remote_shell() const;
  /// The hosts file of all nodes.
  std::string hosts() const { return folder_ / "hosts"; }
  /// What has left that node so far, in bytes.
  int64_t bytes_sent(int node) const;
  int nodes() const { return nodes_; }

 private:
  void remove();
  std::string name(int node) const;

  const int nodes_;
  TemporaryFolder folder_;
};

}  // namespace tandem::test
