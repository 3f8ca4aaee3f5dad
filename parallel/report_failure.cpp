#include <tandem/core/log.h>
#include <tandem/parallel/report_failure.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

namespace tandem {
namespace {

constexpr size_t kInLog = 5;

// To the millisecond, so that the ranks' files can be held against each other.
std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32], fraction[8];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::snprintf(fraction, sizeof fraction, ".%03dZ", int(ms));
  return std::string(text) + fraction;
}

}  // namespace

void report_failure(int rank, const std::string& error, const Channel& where,
                    const std::vector<std::shared_ptr<Channel>>& all) {
  log(LogLevel::error, message("rank ", rank, ": ", error, " (last collectives in ", where.name, ": ",
                               short_text(where.record, kInLog), ")"));
  const char* path = std::getenv("TANDEM_FLIGHT_RECORD");
  if (!path || !*path) return;
  const auto now = FlightRecord::Clock::now();
  std::string text = message("rank ", rank, " at ", utc_now(), " in ", where.name, ": ", error, '\n');
  for (auto& channel : all)
    if (std::string lines = long_text(channel->record, now); !lines.empty()) text += channel->name + "\n" + lines;
  const std::string name = message(path, ".rank", rank);
  std::ofstream file(name, std::ios::app);
  file << text << std::flush;
  if (!file) log(LogLevel::warning, message("[flight record] ", name, " can't be written"));
}

}  // namespace tandem
