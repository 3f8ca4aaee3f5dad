/// Places in sources, as messages name them.
#pragma once
#include <source_location>
#include <string>

namespace simgpu {

inline std::string text(const std::source_location& l) {
  const std::string file = l.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(l.line());
}

inline bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column();
}

}  // namespace simgpu
