/// Not installed. From a rendezvous to a membership: rank 0 serves the store and, where there is a file, tells its
/// address; all find it and join the group, whose number is how many this process has already formed there.
#pragma once
#include <tandem/parallel/rendezvous.h>
#include <tandem/parallel/store_membership.h>

namespace tandem {

/// Returns when all ranks have joined. An attempt that fails does not count: the ranks may try again. A process's
/// groups at one address must be formed in the same order on all ranks. The token is that of the environment. Throws
/// CommError.
TANDEM_API std::unique_ptr<StoreMembership> join_group(
    const Rendezvous& rendezvous, TransportFactory transport,
    std::chrono::milliseconds timeout = std::chrono::minutes(5),
    std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5));

}  // namespace tandem
