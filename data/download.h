/// Fetching a dataset's archive: safe against broken connections, wrong contents, hostile archives and a second process
/// that does the same.
#pragma once
#include <tandem/core/error.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tandem::data {

struct DownloadProgress {
  int64_t received = 0;  // bytes, those of an earlier attempt included
  int64_t total = 0;     // 0 while unknown
};

/// Called now and then while bytes arrive; what it throws ends the download and reaches the caller.
using DownloadCallback = std::function<void(const DownloadProgress&)>;

struct DownloadOptions {
  DownloadCallback progress = {};
  /// Seconds without a connection, or without a byte, after which an attempt ends.
  int timeout_s = 10;
};

/// A file that an archive must contain.
struct ArchivedFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
};

/// A tar archive, as it is or compressed, of one folder.
struct Archive {
  std::string url;
  std::string folder;
  std::vector<ArchivedFile> files;
};

/// Makes sure that root/folder holds the files: fetches the archive, unpacks these files (no others) beside the folder,
/// checks length and SHA-256 of each, and only then renames. A download that was cut off is resumed by the next call; a
/// second process waits for the first and finds its files. One that brought nothing leaves nothing behind. Throws
/// IoError: no connection, wrong contents, full disk, an archive with links or paths that leave its folder.
TANDEM_API void download(const Archive& archive, const std::filesystem::path& root, const DownloadOptions& o = {});

}  // namespace tandem::data
