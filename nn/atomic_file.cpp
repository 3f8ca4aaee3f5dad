#include <tandem/core/error.h>
#include <tandem/nn/atomic_file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".tandem-", kSuffix = ".tmp";

// Where a system call failed: its reason is read before anything else can change it.
template <class... Parts>
[[noreturn]] void fail(int error, const Parts&... parts) {
  throw IoError(message("[save] ", parts..., ": ", std::generic_category().message(error)));
}

// Creates a file that no one else has, locked for as long as it is open. Returns -1 with errno set.
int create_locked(const std::string& folder, std::string& name) {
  static std::atomic<unsigned> count{0};
  for (int tries = 0; tries < 1000; ++tries) {
    name = message(folder, "/", kPrefix, getpid(), "-", count++, kSuffix);
    int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
      if (errno == EEXIST) continue;
      return -1;
    }
    // Between open and flock someone may take it for abandoned: then it is locked, or already has no name. A file
    // system without locks is served too; nothing is ever abandoned there.
    bool taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat s {};
    if (!taken && ::fstat(fd, &s) == 0 && s.st_nlink > 0) return fd;
    ::close(fd);
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  folder_ = fs::path(path_).parent_path().string();
  if (folder_.empty()) folder_.push_back('.');
  struct stat s {};
  bool there = ::lstat(path_.c_str(), &s) == 0;
  check<IoError>(!there || S_ISREG(s.st_mode) || S_ISLNK(s.st_mode), "[save] ", path_, " is not a regular file");
  fd_ = create_locked(folder_, temporary_);
  if (fd_ < 0) fail(errno, "can't write in ", folder_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void AtomicFile::write(const void* data, size_t bytes) {
  constexpr size_t kMost = size_t{1} << 30;  // one call writes no more than 2 GB
  auto* p = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t n = ::write(fd_, p, std::min(bytes, kMost));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(n < 0 ? errno : ENOSPC, "writing ", path_);
    p += n;
    bytes -= size_t(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail(errno, "writing ", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno, "renaming to ", path_);
  ::close(std::exchange(fd_, -1));  // fsync has reported whatever close could
  int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = folder < 0 || ::fsync(folder) != 0 ? errno : 0;
  if (folder >= 0) ::close(folder);
  // EINVAL and ENOTSUP: this file system has no such thing as a folder to sync.
  if (error != 0 && error != EINVAL && error != ENOTSUP)
    fail(error, path_, " is written, but its folder is not synced");
}

void remove_abandoned_files(const std::string& folder) noexcept try {
  for (auto& entry : fs::directory_iterator(folder.empty() ? "." : folder)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    int fd = ::open(entry.path().c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(fd);
  }
} catch (const std::exception&) {
}

}  // namespace tandem
