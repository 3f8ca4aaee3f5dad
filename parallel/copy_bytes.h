/// Not installed. Copying between windows of shared memory. The C library's memcpy takes twice the time there: it
/// chooses for blocks that nobody has just written on another core.
#pragma once
#include <tandem/core/export.h>

#include <cstddef>

namespace tandem {

/// As memcpy: the two don't overlap.
TANDEM_API void copy_bytes(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace tandem
