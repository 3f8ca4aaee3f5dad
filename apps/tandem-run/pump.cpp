#include "apps/tandem-run/pump.h"

#include <tandem/core/error.h>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem::launcher {
namespace {

constexpr size_t kTail = 8192;  // bytes
constexpr size_t kLongestLine = 65536;

// False where nobody reads any more. (This thread blocks SIGPIPE.)
bool write_all(int to, const char* data, size_t bytes) {
  while (bytes) {
    const ssize_t n = ::write(to, data, bytes);
    if (n > 0) {
      data += n;
      bytes -= size_t(n);
    } else if (n < 0 && errno == EAGAIN) {
      pollfd p{to, POLLOUT, 0};
      ::poll(&p, 1, 1000);
    } else if (!(n < 0 && errno == EINTR)) {
      return false;
    }
  }
  return true;
}

// Takes the whole lines from `line`, each with the prefix; all of it where there is no more to come.
std::string whole_lines(std::string& line, const std::string& prefix, bool last) {
  std::string shown;
  size_t from = 0;
  for (size_t end; (end = line.find('\n', from)) != line.npos; from = end + 1)
    shown += prefix + line.substr(from, end + 1 - from);
  line.erase(0, from);
  if (!line.empty() && (last || line.size() > kLongestLine)) {
    shown += prefix + line + '\n';
    line.clear();
  }
  return shown;
}

}  // namespace

Pump::Pump() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  check(bool(wake_), "no eventfd could be made: ", std::strerror(errno));
  thread_ = std::thread([this] { run(); });
}

Pump::~Pump() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void Pump::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = ::write(wake_.get(), &one, sizeof one);
}

void Pump::add(std::shared_ptr<Stream> stream) {
  {
    std::lock_guard lock(mutex_);
    streams_.push_back(std::move(stream));
  }
  wake();
}

void Pump::wait(const Stream& stream, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  ended_.wait_until(lock, deadline, [&] {
    return std::none_of(streams_.begin(), streams_.end(), [&](auto& s) { return s.get() == &stream; });
  });
}

std::string Pump::tail(const Stream& stream) {
  std::lock_guard lock(mutex_);
  return stream.tail;
}

void Pump::run() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    std::vector<std::shared_ptr<Stream>> streams;
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      streams = streams_;
    }
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    for (auto& s : streams) polled.push_back({s->from.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), -1);
    uint64_t ignored;
    if (polled[0].revents) [[maybe_unused]]
      const ssize_t told = ::read(wake_.get(), &ignored, sizeof ignored);
    for (size_t i = 0; i < streams.size(); ++i)
      if (polled[i + 1].revents) carry(*streams[i]);
  }
}

void Pump::carry(Stream& s) {
  char buffer[65536];
  const ssize_t got = ::read(s.from.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  const bool last = got <= 0;
  const std::string bytes(buffer, last ? 0 : size_t(got));
  if (s.file && !write_all(s.file.get(), bytes.data(), bytes.size())) s.file = Descriptor();  // a full disk
  if (s.console >= 0) {
    s.line += s.prefix.empty() ? "" : bytes;
    const std::string shown = s.prefix.empty() ? bytes : whole_lines(s.line, s.prefix, last);
    if (!write_all(s.console, shown.data(), shown.size())) s.console = -1;
  }
  std::lock_guard lock(mutex_);
  s.tail += bytes;
  if (s.tail.size() > 2 * kTail) s.tail.erase(0, s.tail.size() - kTail);
  if (!last) return;
  std::erase_if(streams_, [&](auto& other) { return other.get() == &s; });
  ended_.notify_all();
}

}  // namespace tandem::launcher
