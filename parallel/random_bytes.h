/// Not installed. Bytes that nobody can guess: names, secrets and challenges of connections.
#pragma once
#include <tandem/core/export.h>

#include <cstddef>
#include <string>

namespace tandem {

/// Throws CommError where the system has none.
TANDEM_API std::string random_bytes(size_t count);

}  // namespace tandem
