/// A file that appears whole or not at all: written under another name in the same folder, brought to the disk, then
/// renamed over the old one. What a crash leaves behind is told from what another process is still writing by a lock.
#pragma once
#include <tandem/core/export.h>

#include <cstddef>
#include <string>

namespace tandem {

/// Not for several threads at once. Without commit() nothing is left behind.
class TANDEM_API AtomicFile {
 public:
  /// Throws IoError where the folder does not exist or may not be written, or where `path` is something other than a
  /// regular file (a symbolic link is replaced, not followed).
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError with the system's reason (disk full, quota, ...).
  void write(const void* data, size_t bytes);
  /// Brings the file and its new name to the disk. Throws IoError; what was at `path` is then untouched, unless the
  /// message says that only the folder could not be synced.
  void commit();

 private:
  std::string path_, folder_, temporary_;
  int fd_ = -1;
};

/// Removes temporaries in a folder whose writer died. Errors are ignored: a file that can't be removed does no harm.
TANDEM_API void remove_abandoned_files(const std::string& folder) noexcept;

}  // namespace tandem
