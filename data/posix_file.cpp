#include <tandem/core/error.h>
#include <tandem/data/posix_file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tandem::data {

PosixFile::PosixFile(const std::filesystem::path& path, int flags)
    : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail("opening");
}

PosixFile::~PosixFile() { ::close(fd_); }

void PosixFile::lock() {
  while (::flock(fd_, LOCK_EX) != 0)
    if (errno != EINTR) fail("locking");
}

bool PosixFile::has_name() const {
  struct stat s {};
  if (::fstat(fd_, &s) != 0) fail("looking at");
  return s.st_nlink > 0;
}

void PosixFile::write(const void* data, size_t bytes) {
  for (auto at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = ::write(fd_, at, bytes);
    if (n < 0) {
      if (errno != EINTR) fail("writing");
      continue;
    }
    at += n;
    bytes -= size_t(n);
  }
}

void PosixFile::truncate() {
  if (::ftruncate(fd_, 0) != 0) fail("emptying");
}

void PosixFile::sync() {
  if (::fsync(fd_) != 0) fail("syncing");
}

void PosixFile::fail(const char* doing) const {
  const std::string why = std::generic_category().message(errno);
  throw IoError(message("[download] ", doing, " ", path_.string(), ": ", why));
}

}  // namespace tandem::data
