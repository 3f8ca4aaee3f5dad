/// A web server for one file on 127.0.0.1, as slow, broken and short of features as a test wants it.
#pragma once
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem::test {

struct ServerOptions {
  int status = 200;
  bool ranges = true;                  // understands Range
  std::vector<size_t> cut_after = {};  // connection k ends after so many bytes of the body
  bool silent = false;                 // accepts, and says nothing
};

class HttpServer {
 public:
  explicit HttpServer(std::string body, ServerOptions o = {}) : body_(std::move(body)), o_(std::move(o)) {
    setenv("no_proxy", "127.0.0.1", 1);
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof a;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&a), n) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&a), &n) == 0);
    port_ = ntohs(a.sin_port);
  }
  ~HttpServer() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Connections wait until this is called: a test may fork before there is a thread.
  void start() {
    thread_ = std::thread([this] { serve(); });
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/archive.tar"; }
  /// Where each request wanted to start.
  std::vector<size_t> starts() {
    std::lock_guard l(m_);
    return starts_;
  }

 private:
  bool readable(int fd) const {
    pollfd p{fd, POLLIN, 0};
    while (!stop_)
      if (poll(&p, 1, 10) > 0) return true;
    return false;
  }
  void serve() {
    while (readable(listener_)) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) answer(fd);
      close(fd);
    }
  }
  void answer(int fd) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == request.npos) {
      if (!readable(fd)) return;
      const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      request.append(buffer, size_t(n));
    }
    if (o_.silent) {
      readable(fd);  // until the other end has enough
      return;
    }
    size_t from = 0;
    if (const size_t at = request.find("Range: bytes="); at != request.npos && o_.ranges)
      from = size_t(std::stoull(request.substr(at + 13)));
    size_t served;
    {
      std::lock_guard l(m_);
      starts_.push_back(from);
      served = starts_.size() - 1;
    }
    const std::string size = std::to_string(body_.size());
    if (o_.status != 200)
      return send_all(fd, "HTTP/1.1 " + std::to_string(o_.status) + " No\r\nContent-Length: 0\r\n\r\n");
    if (from > 0 && from >= body_.size())
      return send_all(fd, "HTTP/1.1 416 No\r\nContent-Range: bytes */" + size + "\r\nContent-Length: 0\r\n\r\n");
    std::string answer = from ? "HTTP/1.1 206 Partial\r\nContent-Range: bytes " + std::to_string(from) + "-" +
                                    std::to_string(body_.size() - 1) + "/" + size + "\r\n"
                              : std::string("HTTP/1.1 200 OK\r\n");
    answer += "Content-Length: " + std::to_string(body_.size() - from) + "\r\nConnection: close\r\n\r\n";
    std::string rest = body_.substr(from);
    if (served < o_.cut_after.size()) rest.resize(std::min(rest.size(), o_.cut_after[served]));
    send_all(fd, answer + rest);
  }
  static void send_all(int fd, const std::string& s) {
    for (size_t at = 0; at < s.size();) {
      const ssize_t n = send(fd, s.data() + at, s.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += size_t(n);
    }
    shutdown(fd, SHUT_WR);
  }

  std::string body_;
  ServerOptions o_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex m_;
  std::vector<size_t> starts_;
  std::thread thread_;
};

}  // namespace tandem::test
