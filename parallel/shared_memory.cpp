#include <tandem/core/error.h>
#include <tandem/parallel/shared_memory.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace tandem {
namespace {

[[noreturn]] void fail(const char* call, size_t bytes) {
  throw CommError(message("[shared memory] ", call, " of ", bytes, " bytes: ", std::strerror(errno)));
}

#ifndef F_SEAL_FUTURE_WRITE
constexpr int F_SEAL_FUTURE_WRITE = 0x0010;  // Linux 5.1
#endif

}  // namespace

SharedMemory::SharedMemory(Descriptor descriptor, size_t bytes, int protection)
    : descriptor_(std::move(descriptor)), bytes_(bytes) {
  void* at = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor_.get(), 0);
  if (at == MAP_FAILED) fail("a mapping", bytes);
  data_ = static_cast<std::byte*>(at);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory::~SharedMemory() {
  if (data_) ::munmap(data_, bytes_);
}

SharedMemory SharedMemory::make(size_t bytes) {
  Descriptor fd(::memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail("making", bytes);
  // Not ftruncate, which reserves nothing: a full machine would say so by a signal at the first write.
  if (const int error = ::posix_fallocate(fd.get(), 0, off_t(bytes))) {
    errno = error;
    fail("reserving", bytes);
  }
  SharedMemory memory(std::move(fd), bytes, PROT_READ | PROT_WRITE);
  const int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (::fcntl(memory.descriptor_.get(), F_ADD_SEALS, size_seals | F_SEAL_FUTURE_WRITE) != 0 &&
      ::fcntl(memory.descriptor_.get(), F_ADD_SEALS, size_seals) != 0)
    fail("sealing", bytes);
  return memory;
}

SharedMemory SharedMemory::open(Descriptor descriptor, size_t bytes) {
  struct stat info {};
  if (::fstat(descriptor.get(), &info) != 0) fail("looking at another process's memory", bytes);
  check<CommError>(size_t(info.st_size) == bytes, "[shared memory] another process offers ", info.st_size,
                   " bytes, expected ", bytes, ": do all ranks run the same version?");
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  check<CommError>(seals >= 0 && (seals & F_SEAL_SHRINK), "[shared memory] another process's ", bytes,
                   " bytes could be shrunk under this one's feet");
  SharedMemory memory(std::move(descriptor), bytes, PROT_READ);
  memory.close_descriptor();
  return memory;
}

}  // namespace tandem
