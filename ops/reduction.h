/// How a loss comes back: one value, or one per element or row.
#pragma once
#include <tandem/core/export.h>

#include <cstdint>
#include <string>

namespace tandem {

/// mean: the average (of rows: by their weights); sum: the total; none: each by itself.
enum class Reduction : uint8_t { mean, sum, none };

/// "mean", "sum", "none"
TANDEM_API std::string to_string(Reduction);
/// The inverse of to_string. Throws Error.
TANDEM_API Reduction parse_reduction(const std::string& name);

}  // namespace tandem
