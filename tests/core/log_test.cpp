#include <tandem/core/log.h>

#include <doctest/doctest.h>

#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace tandem;

namespace {

// The sink in force for a scope.
class SinkGuard {
 public:
  explicit SinkGuard(LogSink sink) : was_(set_log_sink(std::move(sink))) {}
  ~SinkGuard() { set_log_sink(std::move(was_)); }
  SinkGuard(const SinkGuard&) = delete;
  SinkGuard& operator=(const SinkGuard&) = delete;

 private:
  LogSink was_;
};

// What std::clog gets for a scope.
class ClogGuard {
 public:
  ClogGuard() : was_(std::clog.rdbuf(text_.rdbuf())) {}
  ~ClogGuard() { std::clog.rdbuf(was_); }
  ClogGuard(const ClogGuard&) = delete;
  ClogGuard& operator=(const ClogGuard&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* was_;
};

}  // namespace

TEST_CASE("by default warnings and errors go to stderr") {
  ClogGuard clog;
  log(LogLevel::info, "not shown");
  log(LogLevel::warning, "careful");
  log(LogLevel::error, "broken");
  CHECK(clog.text() == "tandem: warning: careful\ntandem: error: broken\n");
}

TEST_CASE("a sink gets everything, and may be replaced from within") {
  std::vector<std::string> seen;
  {
    SinkGuard sink([&](LogLevel level, std::string_view text) {
      seen.push_back(std::to_string(int(level)) + std::string(text));
      set_log_sink({});  // must not deadlock
    });
    log(LogLevel::info, "a");
    ClogGuard clog;
    log(LogLevel::error, "b");  // an empty sink is silence
    CHECK(clog.text().empty());
  }
  CHECK(seen == std::vector<std::string>{"0a"});
  ClogGuard clog;
  log(LogLevel::warning, "c");
  CHECK_FALSE(clog.text().empty());  // the default is back
}

TEST_CASE("lines of several threads arrive whole") {
  std::mutex m;
  std::vector<std::string> seen;
  SinkGuard sink([&](LogLevel, std::string_view text) {
    std::lock_guard l(m);
    seen.emplace_back(text);
  });
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) log(LogLevel::info, "a line");
    });
  for (auto& t : threads) t.join();
  CHECK(seen == std::vector<std::string>(200, "a line"));
}
