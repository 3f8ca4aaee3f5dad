/// The project's own sources, for tests that read them.
#pragma once
#include <tandem/core/error.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::test {

struct SourceFile {
  std::string folder, path;  // of the tree: "core", "core/tensor.h"
  std::string text;
  bool is_header() const { return path.ends_with(".h"); }
  /// A header that is not part of an installation says so in its first line.
  bool is_installed() const { return is_header() && !text.starts_with("/// Not installed"); }
};

/// The C++ and CUDA sources of a folder and those below it, by path; empty where there is no such folder.
inline std::vector<SourceFile> sources_of(const std::string& folder) {
  const std::filesystem::path root = TANDEM_SOURCE_DIR;
  std::vector<SourceFile> files;
  if (!std::filesystem::exists(root / folder)) return files;
  for (auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    check<IoError>(bool(in), "can't read ", entry.path().string());
    files.push_back({folder, std::filesystem::relative(entry.path(), root).string(), text.str()});
  }
  std::sort(files.begin(), files.end(), [](auto& a, auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace tandem::test
