/// What the library says while this lives, instead of stderr.
#pragma once
#include <tandem/core/log.h>

#include <mutex>
#include <string>
#include <vector>

namespace tandem::test {

class LogCapture {
 public:
  LogCapture()
      : before_(set_log_sink([this](LogLevel, std::string_view text) {
          std::lock_guard lock(mutex_);
          lines_.emplace_back(text);
        })) {}
  ~LogCapture() { set_log_sink(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  size_t lines() const {
    std::lock_guard lock(mutex_);
    return lines_.size();
  }
  /// The first line with that in it, or nothing.
  std::string find(const std::string& part) const {
    std::lock_guard lock(mutex_);
    for (auto& line : lines_)
      if (line.find(part) != line.npos) return line;
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  LogSink before_;
};

}  // namespace tandem::test
