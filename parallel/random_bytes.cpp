#include <tandem/core/error.h>
#include <tandem/parallel/random_bytes.h>

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace tandem {

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t at = 0; at < count;) {
    const ssize_t got = ::getrandom(bytes.data() + at, count - at, 0);
    check<CommError>(got > 0 || errno == EINTR, "[random] the system gives no random bytes: ", std::strerror(errno));
    if (got > 0) at += size_t(got);
  }
  return bytes;
}

}  // namespace tandem
