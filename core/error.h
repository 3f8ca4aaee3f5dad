/// The exceptions of the library and the one way messages are put together.
/// A message names the op and both sides of a mismatch: "[conv2d] input has 64 channels, weight [128,3,3,3] wants 3".
#pragma once
#include <tandem/core/export.h>

#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tandem {

struct TANDEM_API Error : std::runtime_error {
  using runtime_error::runtime_error;
};
struct TANDEM_API ShapeError : Error {
  using Error::Error;
};
struct TANDEM_API DtypeError : Error {
  using Error::Error;
};
struct TANDEM_API DeviceError : Error {
  using Error::Error;
};
struct TANDEM_API OutOfMemoryError : DeviceError {
  using DeviceError::DeviceError;
};
struct TANDEM_API IoError : Error {
  using Error::Error;
};
/// Of a group of ranks: one has died, hangs, has left, or asked for another collective than the others.
struct TANDEM_API CommError : Error {
  explicit CommError(const std::string& what, int culprit = -1) : Error(what), rank(culprit) {}
  int rank;  // the one that is to blame, -1 where nobody is
};

namespace detail {
TANDEM_API void append(std::string& to, double value);
inline void append(std::string& to, std::string_view text) { to += text; }
inline void append(std::string& to, const char* text) { to += text; }
inline void append(std::string& to, char c) { to += c; }
inline void append(std::string& to, bool value) { to += value ? "true" : "false"; }
template <std::integral T>
void append(std::string& to, T value) {
  to += std::to_string(value);
}
template <class T>
requires requires(const T& v) {
  { to_string(v) } -> std::convertible_to<std::string>;
}
void append(std::string& to, const T& value) { to += to_string(value); }
}  // namespace detail

/// The parts one after the other: text, numbers, and whatever has a `to_string` (shapes, dtypes, devices).
template <class... Parts>
std::string message(const Parts&... parts) {
  std::string s;
  (detail::append(s, parts), ...);
  return s;
}

/// Throws E with the parts as its message where `ok` is false.
template <class E = Error, class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw E(message(parts...));
}

}  // namespace tandem
