/// Not installed: the JSON header of a safetensors file, read with every number checked, and written.
#pragma once
#include <tandem/nn/safetensors.h>

#include <string_view>

namespace tandem::detail {

/// Checks that the tensors cover `data_bytes` exactly, without hole or overlap. Throws IoError naming `file`.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes, const std::string& file);

/// Throws Error for text that is not UTF-8.
std::string write_safetensors_header(const SafetensorsHeader& header);

inline constexpr std::string_view kMetadataKey = "__metadata__";
inline constexpr const char* kChecksumKey = "tandem.checksum";  // stands among the metadata, and is not shown there
inline constexpr uint64_t kLengthBytes = 8;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation

/// A name out of a file, fit for a message: cut, and without control characters.
std::string shown(std::string_view name);

}  // namespace tandem::detail
