/// Not installed: a file by its descriptor, for what streams can't do: locks, syncing, exclusive creation, and errors
/// that say what the system said.
#pragma once
#include <cstddef>
#include <filesystem>

namespace tandem::data {

class PosixFile {
 public:
  /// `flags` as of open(2); close-on-exec is added. Throws IoError.
  PosixFile(const std::filesystem::path& path, int flags);
  ~PosixFile();
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  /// Waits until no other holds the file's lock; it is let go when this is destroyed, or its process ends.
  void lock();
  /// Whether it has not been removed meanwhile.
  bool has_name() const;
  void write(const void* data, size_t bytes);
  void truncate();
  /// Its bytes are on the disk when this returns.
  void sync();

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::filesystem::path path_;
  int fd_;
};

}  // namespace tandem::data
