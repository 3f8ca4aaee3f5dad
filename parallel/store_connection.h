/// Not installed. Finding a store and proving the token to it: a proven connection, or the reason why there is none at
/// the deadline. Whoever comes before the store does, or is cut off by it, tries again.
#pragma once
#include <tandem/parallel/tcp_socket.h>

#include <functional>
#include <optional>

namespace tandem {

/// Where a store is. `identity` is the one it must have: where it is known, another store, or none, is a stale address.
struct StoreAddress {
  std::string host;
  int port = 0;
  std::string identity = {};
};

/// Asked before each attempt; nothing where the address is not known yet, with the reason in `why`.
using LocateStore = std::function<std::optional<StoreAddress>(std::string& why)>;

/// Tries until the deadline; says every few seconds that `who` ("rank 1") waits, and for what. Throws CommError at the
/// deadline, and at once where the token is wrong, or what listens at the address is no store.
TANDEM_API Descriptor connect_to_store(const LocateStore& locate, const std::string& token, Deadline deadline,
                                       const std::string& who);

}  // namespace tandem
