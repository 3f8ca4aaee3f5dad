/// Why a library refused a call: said in words, where most of its functions give no more than a code.
#pragma once
#include <string>

namespace simgpu {

/// Remembers the text for the calling thread. SIMGPU_VERBOSE=1 prints it, too.
void remember_refusal(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The calling thread's last; empty where nothing was refused yet.
const std::string& last_refusal();

/// `return refuse(STATUS, "format", ...)`.
template <class Status, class... Arguments>
Status refuse(Status status, const char* format, Arguments... arguments) {
  remember_refusal(format, arguments...);
  return status;
}

}  // namespace simgpu
