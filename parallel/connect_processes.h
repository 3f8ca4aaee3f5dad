/// Not installed. Which way the bytes of a group of processes go: by shared memory where all are on one machine, by
/// sockets otherwise.
#pragma once
#include <tandem/parallel/store_membership.h>

namespace tandem {

/// One text for each machine and user whose processes can share memory: boot, network namespace, user.
TANDEM_API std::string machine_identity();

/// Those of a channel's members, in their order, from the group's store. Collective among them.
TANDEM_API std::vector<std::string> machines_of(StoreMembership& membership, const std::shared_ptr<Channel>& channel);

/// `kind` is "auto", "shm" or "sockets". Throws Error for another one, CommError where memory can't be shared.
TANDEM_API TransportFactory transport_factory(const std::string& kind, const std::string& token);

}  // namespace tandem
