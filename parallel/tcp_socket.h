/// Not installed. TCP sockets with deadlines: addresses, listening, connecting, and sending and receiving whole
/// messages. Every descriptor is made close-on-exec, non-blocking and without Nagle's delay. (A descriptor that a child
/// inherits keeps a dead rank's connection open, and its death unseen.)
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/descriptor.h>

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
};
/// "10.0.0.1:29500", "[::1]:29500"
TANDEM_API std::string to_string(const SocketAddress& a);
/// The number alone: "10.0.0.1".
TANDEM_API std::string host_of(const SocketAddress& a);
TANDEM_API int port_of(const SocketAddress& a);
TANDEM_API bool is_loopback(const SocketAddress& a);

/// The addresses of a host, by name or number, with this port. Throws CommError where it has none.
TANDEM_API std::vector<SocketAddress> resolve(const std::string& host, int port);

/// A listening socket at this address alone; port 0 takes a free one. Throws CommError.
TANDEM_API Descriptor listen_at(const SocketAddress& a);
/// The next connection; none, with errno set, where there is none.
TANDEM_API Descriptor accept_at(int listener);

using Deadline = std::chrono::steady_clock::time_point;
/// One attempt. Where it fails, no descriptor and the reason in `why`.
TANDEM_API Descriptor connect_to(const SocketAddress& a, Deadline deadline, std::string& why);

TANDEM_API SocketAddress local_address(int fd);
TANDEM_API SocketAddress remote_address(int fd);

/// The whole of it, or false with errno set (0 where the other side has closed).
TANDEM_API bool send_all(int fd, const void* data, size_t bytes, Deadline deadline);
TANDEM_API bool recv_all(int fd, void* data, size_t bytes, Deadline deadline);
/// What errno says of it, "closed by the other side" for 0.
TANDEM_API std::string socket_error();

}  // namespace tandem
