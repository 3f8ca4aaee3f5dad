/// Ends of the process that name the line of the kernel.
#pragma once

namespace simgpu {

inline constexpr int kFailed = 97;  // what the process ends with

/// As fail, with the line of the call that returns there.
[[noreturn]] void fail_at(const void* return_address, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace simgpu
