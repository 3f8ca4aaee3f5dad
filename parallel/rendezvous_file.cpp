#include <tandem/core/error.h>
#include <tandem/parallel/rendezvous_file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

namespace tandem {
namespace {

constexpr const char* kFirstLine = "tandem store 1";
constexpr const char* kLastLine = "end";  // without it the rest is still to come
constexpr size_t kMostBytes = 4096;

// Whether the path still leads to the open file.
bool is_at(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

Descriptor open_locked(const std::string& path) {
  for (;;) {
    Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    check<IoError>(bool(fd), "[init_process_group] can't open ", path, ": ", std::strerror(errno));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      check<CommError>(errno != EWOULDBLOCK, "[init_process_group] ", path,
                       " is in use by another group: choose another file");
      throw IoError(message("[init_process_group] ", path, " can't be locked (", std::strerror(errno),
                            "): use a file system that has locks, or tcp://"));
    }
    if (is_at(fd.get(), path)) return fd;  // else its last owner removed it in between
  }
}

}  // namespace

RendezvousFile::RendezvousFile(std::string path, const StoreAddress& address)
    : path_(std::move(path)), fd_(open_locked(path_)) {
  const std::string text =
      message(kFirstLine, '\n', address.host, '\n', address.port, '\n', address.identity, '\n', kLastLine, '\n');
  check<IoError>(
      ::ftruncate(fd_.get(), 0) == 0 && ::pwrite(fd_.get(), text.data(), text.size(), 0) == ssize_t(text.size()),
      "[init_process_group] can't write ", path_, ": ", std::strerror(errno));
}

RendezvousFile::~RendezvousFile() {
  if (is_at(fd_.get(), path_)) ::unlink(path_.c_str());
}

std::optional<StoreAddress> RendezvousFile::read(const std::string& path, std::string& why) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    why = message("no address in ", path, " yet: ", std::strerror(errno));
    return {};
  }
  std::string text(kMostBytes, '\0');
  const ssize_t n = ::pread(fd.get(), text.data(), text.size(), 0);
  text.resize(size_t(n > 0 ? n : 0));
  std::istringstream lines(text);
  std::string first, port, last;
  StoreAddress a;
  for (std::string* line : {&first, &a.host, &port, &a.identity, &last}) std::getline(lines, *line);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), a.port);
  if (first == kFirstLine && last == kLastLine && error == std::errc{} && end == port.data() + port.size() &&
      0 < a.port && a.port <= 65535 && !a.host.empty() && !a.identity.empty())
    return a;
  why = message("no address in ", path, " yet");
  return {};
}

}  // namespace tandem
