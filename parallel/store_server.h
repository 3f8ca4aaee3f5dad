/// Not installed. StoreServer: the store behind rendezvous, one per process and address; whatever is served there
/// shares it. It holds numbered groups, and keys for clients that belong to none. Whoever connects must prove the token
/// before anything else is read; strangers, floods, noise and half-open connections are refused, logged, and harm
/// nobody.
#pragma once
#include <tandem/core/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace tandem {

class TANDEM_API StoreServer {
 public:
  /// The one at this address, which is made if this process has none there. It listens at the first address that the
  /// host resolves to, never at all of the machine's; port 0 takes a free one. Without a token only loopback is served.
  /// Throws CommError.
  static std::shared_ptr<StoreServer> at(const std::string& host, int port, const std::string& token);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Numbers both.
  const std::string& host() const { return host_; }
  int port() const { return port_; }
  /// Random digits that no other store has.
  const std::string& identity() const { return identity_; }

  /// Rank 0 is done with this group: returns when no member needs the store any more, or after the grace, and ends the
  /// group.
  void finish(int64_t group, std::chrono::milliseconds grace);

 private:
  StoreServer(const std::string& host, int port, std::string token);
  class Impl;
  std::string host_, identity_, token_;
  int port_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
