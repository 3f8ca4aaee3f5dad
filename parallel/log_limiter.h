/// Not installed. LogLimiter: lets a few lines through at once and then one a second, and counts the others, so that
/// whoever knocks at a port can't fill a disk.
#pragma once
#include <tandem/core/error.h>
#include <tandem/core/log.h>

#include <algorithm>
#include <chrono>

namespace tandem {

class LogLimiter {
 public:
  void warn(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    credit_ = std::min(kBurst, credit_ + seconds);
    if (credit_ < 1) {
      ++kept_back_;
      return;
    }
    credit_ -= 1;
    log(LogLevel::warning, kept_back_ ? message(text, " (and ", kept_back_, " more such lines before it)") : text);
    kept_back_ = 0;
  }

 private:
  static constexpr double kBurst = 5;
  double credit_ = kBurst;
  int64_t kept_back_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace tandem
