#include <tandem/data/folder_lock.h>

#include <fcntl.h>

namespace tandem::data {

namespace fs = std::filesystem;

TentativeFolders::TentativeFolders(const fs::path& folder) {
  for (fs::path p = folder; !p.empty() && !fs::exists(p); p = p.parent_path()) made_.push_back(p);
  fs::create_directories(folder);
}

TentativeFolders::~TentativeFolders() {
  std::error_code not_empty;
  for (const fs::path& p : made_) fs::remove(p, not_empty);
}

FolderLock::FolderLock(const fs::path& folder, const std::string& name) : folders_(folder), path_(folder / name) {
  // While we waited its holder may have taken the file away: then others lock another one, and so must we.
  do {
    file_.emplace(path_, O_RDWR | O_CREAT);
    file_->lock();
  } while (!file_->has_name());
}

FolderLock::~FolderLock() {
  std::error_code ignored;
  fs::remove(path_, ignored);  // while it is locked
}

}  // namespace tandem::data
