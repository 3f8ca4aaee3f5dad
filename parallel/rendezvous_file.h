/// Not installed. The file through which rank 0 tells the others where its store is. It holds a lock on the file for as
/// long as it lives, so that two groups can't share one; a file that a dead rank 0 has left behind is not locked, and
/// names a store that nobody can reach, or that is another one.
#pragma once
#include <tandem/parallel/descriptor.h>
#include <tandem/parallel/store_connection.h>

namespace tandem {

class TANDEM_API RendezvousFile {
 public:
  /// Throws CommError where another group uses the file, IoError where it can't be written or locked.
  RendezvousFile(std::string path, const StoreAddress& address);
  /// Removes it.
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

  /// What stands in it; nothing, with the reason in `why`, where there is no file or not yet all of it.
  static std::optional<StoreAddress> read(const std::string& path, std::string& why);

 private:
  const std::string path_;
  Descriptor fd_;
};

}  // namespace tandem
