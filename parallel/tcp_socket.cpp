#include <tandem/core/error.h>
#include <tandem/parallel/tcp_socket.h>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace tandem {
namespace {

constexpr int kBacklog = 512;
constexpr int kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

const sockaddr* raw(const SocketAddress& a) { return reinterpret_cast<const sockaddr*>(&a.storage); }
sockaddr* raw(SocketAddress& a) { return reinterpret_cast<sockaddr*>(&a.storage); }

bool same_address(const SocketAddress& a, const SocketAddress& b) {
  return host_of(a) == host_of(b) && port_of(a) == port_of(b);
}

// False at the deadline.
bool wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, int(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (n > 0) return true;
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ETIMEDOUT;
    return false;
  }
}

void set_no_delay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

template <class Step>
bool transfer_all(int fd, size_t bytes, short events, Deadline deadline, Step step) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = step(done);
    if (n > 0) {
      done += size_t(n);
    } else if (n == 0) {
      errno = 0;
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, events, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string host_of(const SocketAddress& a) {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(raw(a), a.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

int port_of(const SocketAddress& a) {
  if (a.family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(a.storage).sin_port);
}

std::string to_string(const SocketAddress& a) {
  const std::string host = host_of(a);
  return host.find(':') == host.npos ? message(host, ':', port_of(a)) : message('[', host, "]:", port_of(a));
}

bool is_loopback(const SocketAddress& a) {
  if (a.family() == AF_INET6) {
    const in6_addr& in = reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&in) || (IN6_IS_ADDR_V4MAPPED(&in) && in.s6_addr[12] == 127);
  }
  return ntohl(reinterpret_cast<const sockaddr_in&>(a.storage).sin_addr.s_addr) >> 24 == 127;
}

std::vector<SocketAddress> resolve(const std::string& host, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), message(port).c_str(), &hints, &list);
  check<CommError>(error == 0, "the host '", host, "' has no address: ", ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (; list; list = list->ai_next) {
    if (list->ai_family != AF_INET && list->ai_family != AF_INET6) continue;
    SocketAddress a;
    std::memcpy(&a.storage, list->ai_addr, list->ai_addrlen);
    a.length = list->ai_addrlen;
    found.push_back(a);
  }
  check<CommError>(!found.empty(), "the host '", host, "' has no IP address");
  return found;
}

Descriptor listen_at(const SocketAddress& a) {
  Descriptor fd(::socket(a.family(), SOCK_STREAM | kSocketFlags, 0));
  const int one = 1;
  // Connections of a group that has just ended linger in TIME_WAIT: they must not keep the port.
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      ::bind(fd.get(), raw(a), a.length) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    std::string advice;
    if (error == EADDRINUSE) advice = "; another program or group listens there: choose another port";
    if (error == EADDRNOTAVAIL) advice = "; it is not an address of this machine, on which rank 0 runs";
    throw CommError(message("can't listen at ", a, ": ", std::strerror(error), advice));
  }
  return fd;
}

Descriptor accept_at(int listener) {
  Descriptor fd(::accept4(listener, nullptr, nullptr, kSocketFlags));
  if (fd) set_no_delay(fd.get());
  return fd;
}

Descriptor connect_to(const SocketAddress& a, Deadline deadline, std::string& why) {
  Descriptor fd(::socket(a.family(), SOCK_STREAM | kSocketFlags, 0));
  int error = fd ? 0 : errno;
  if (fd && ::connect(fd.get(), raw(a), a.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      if (!wait_for(fd.get(), POLLOUT, deadline))
        error = errno;
      else if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = errno;
    }
  }
  // Where nobody listens at a port of the range that outgoing connections take theirs from, one that gets this very
  // port is connected to itself.
  if (error == 0 && same_address(local_address(fd.get()), remote_address(fd.get()))) error = ECONNREFUSED;
  if (error != 0) {
    why = std::strerror(error);
    return {};
  }
  set_no_delay(fd.get());
  return fd;
}

SocketAddress local_address(int fd) {
  SocketAddress a;
  a.length = sizeof a.storage;
  check<CommError>(::getsockname(fd, raw(a), &a.length) == 0, "a socket has no address: ", std::strerror(errno));
  return a;
}

SocketAddress remote_address(int fd) {
  SocketAddress a;
  a.length = sizeof a.storage;
  // One that was reset in the meantime has none; what comes next tells.
  if (::getpeername(fd, raw(a), &a.length) != 0) return {};
  return a;
}

bool send_all(int fd, const void* data, size_t bytes, Deadline deadline) {
  return transfer_all(fd, bytes, POLLOUT, deadline, [&](size_t done) {
    return ::send(fd, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
  });
}

bool recv_all(int fd, void* data, size_t bytes, Deadline deadline) {
  return transfer_all(fd, bytes, POLLIN, deadline,
                      [&](size_t done) { return ::recv(fd, static_cast<char*>(data) + done, bytes - done, 0); });
}

std::string socket_error() { return errno == 0 ? "closed by the other side" : std::strerror(errno); }

}  // namespace tandem
