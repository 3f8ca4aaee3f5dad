/// What this library was built from and for.
#pragma once
#include <tandem/core/export.h>

#include <string>

namespace tandem {

/// Several lines: version, compiler, instruction sets compiled for and found, threads, oneDNN, devices.
TANDEM_API std::string build_info();

}  // namespace tandem
