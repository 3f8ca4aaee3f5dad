/// What this library was built from and for, and what it found on this machine.
#pragma once
#include <tandem/core/export.h>

#include <string>

namespace tandem {

/// Lines "name: value": version, compiler, instruction sets compiled for and found here, threads, the libraries that
/// other folders registered (oneDNN, say), devices.
TANDEM_API std::string build_info();

namespace detail {
/// Adds a line about a library that core must not know: from a source of a higher folder, before main.
TANDEM_API bool add_build_info(const char* name, std::string (*value)());
}  // namespace detail

}  // namespace tandem
