#include <tandem/data/download.h>
#include <tandem/data/fetch_url.h>
#include <tandem/data/folder_lock.h>
#include <tandem/data/posix_file.h>
#include <tandem/data/unpack.h>

#include <fcntl.h>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

bool is_complete(const fs::path& folder, const Archive& a) {
  for (const ArchivedFile& f : a.files) {
    std::error_code missing;
    const auto bytes = fs::file_size(folder / f.name, missing);
    if (missing || int64_t(bytes) != f.bytes) return false;
  }
  return true;
}

// A folder that is gone again unless its contents have been moved away.
struct ScratchFolder {
  fs::path path;
  explicit ScratchFolder(fs::path p) : path(std::move(p)) {
    fs::remove_all(path);  // of a process that was killed
    fs::create_directory(path);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// What has come of an archive, kept for the next attempt unless it is nothing.
struct PartFile {
  fs::path path;
  ~PartFile() {
    std::error_code ignored;
    if (fs::file_size(path, ignored) == 0) fs::remove(path, ignored);
  }
};

// Readers see the folder complete or not at all; where there is one already, each file is complete or not there.
void move_into_place(const fs::path& from, const fs::path& to, const Archive& a) {
  if (!fs::exists(to)) {
    fs::rename(from, to);
  } else {
    for (const ArchivedFile& f : a.files) fs::rename(from / f.name, to / f.name);
    PosixFile(to, O_RDONLY | O_DIRECTORY).sync();
  }
  PosixFile(to.parent_path(), O_RDONLY | O_DIRECTORY).sync();
}

void fetch_and_unpack(const Archive& a, const fs::path& root, const fs::path& part, const DownloadOptions& o) {
  int64_t bytes = 0;
  for (const ArchivedFile& f : a.files) bytes += f.bytes;
  const int64_t max_bytes = 2 * bytes + (1 << 20);
  while (true) {
    const bool resumes = fs::exists(part);
    fetch_url(a.url, part, max_bytes, o);
    try {
      const ScratchFolder scratch(root / ("." + a.folder + ".unpacking"));
      unpack(part, a, scratch.path);
      move_into_place(scratch.path, root / a.folder, a);
      fs::remove(part);
      return;
    } catch (const BadArchive&) {
      fs::remove(part);
      if (!resumes) throw;  // else its beginning may have been of another day
    }
  }
}

}  // namespace

void download(const Archive& archive, const fs::path& root, const DownloadOptions& o) {
  if (is_complete(root / archive.folder, archive)) return;
  try {
    const FolderLock lock(root, "." + archive.folder + ".lock");
    if (is_complete(root / archive.folder, archive)) return;  // another process has done it meanwhile
    const PartFile part{root / ("." + archive.folder + ".part")};
    fetch_and_unpack(archive, root, part.path, o);
  } catch (const fs::filesystem_error& e) {
    throw IoError(message("[download] ", e.what()));
  }
}

}  // namespace tandem::data
