/// What the library must say goes to one replaceable sink: stderr by default, warnings and up.
#pragma once
#include <tandem/core/export.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace tandem {

enum class LogLevel : uint8_t { info, warning, error };
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink of the process; an empty function silences the library. Returns the one before.
TANDEM_API LogSink set_log_sink(LogSink sink);
TANDEM_API void log(LogLevel level, std::string_view text);

}  // namespace tandem
