#include <tandem/core/log.h>

#include <iostream>
#include <mutex>
#include <string>
#include <utility>

namespace tandem {
namespace {

void to_stderr(LogLevel level, std::string_view text) {
  if (level < LogLevel::warning) return;
  std::string line = level == LogLevel::error ? "tandem: error: " : "tandem: warning: ";
  line.append(text) += '\n';
  std::clog.write(line.data(), std::streamsize(line.size())).flush();  // one write: lines of threads stay whole
}
struct Sink {
  std::mutex m;
  LogSink f = to_stderr;
};
Sink& sink() {
  static Sink* s = new Sink;  // never destroyed: threads may log while the process ends
  return *s;
}

}  // namespace

LogSink set_log_sink(LogSink f) {
  std::lock_guard l(sink().m);
  return std::exchange(sink().f, std::move(f));
}

void log(LogLevel level, std::string_view text) {
  LogSink f;
  {
    std::lock_guard l(sink().m);
    f = sink().f;
  }
  if (f) f(level, text);
}

}  // namespace tandem
