/// A text as JSON has it.
#pragma once
#include <string>

namespace simgpu {

/// Names of kernels and functions: no more than quotes and backslashes needs care.
inline std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + '"';
}

}  // namespace simgpu
