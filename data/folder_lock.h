/// Not installed: one process at a time works in a folder, which need not be there yet.
#pragma once
#include <tandem/data/posix_file.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tandem::data {

/// Makes folders, and takes those away again that are empty when it goes.
class TentativeFolders {
 public:
  /// Throws std::filesystem::filesystem_error.
  explicit TentativeFolders(const std::filesystem::path& folder);
  ~TentativeFolders();
  TentativeFolders(const TentativeFolders&) = delete;
  TentativeFolders& operator=(const TentativeFolders&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // inner ones first
};

class FolderLock {
 public:
  /// Waits until no other process holds the lock, a file of that name. What is made for it is gone afterwards: the
  /// file, and the folder if nothing else has come into it. Throws IoError or std::filesystem::filesystem_error.
  FolderLock(const std::filesystem::path& folder, const std::string& name);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const TentativeFolders folders_;
  const std::filesystem::path path_;
  std::optional<PosixFile> file_;
};

}  // namespace tandem::data
