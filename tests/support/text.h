/// What tests look for in messages and output.
#pragma once
#include <tandem/core/error.h>

#include <cstddef>
#include <string>

namespace tandem::test {

inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// How often the part stands in the text.
inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// The message of the E that f throws; empty where it throws nothing.
template <class E = Error, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}

}  // namespace tandem::test
