/// Not installed. FlightRecord: the last collectives of a communicator, kept so that a failure can be looked into
/// (PyTorch's flight recorder). It costs two readings of the clock per collective.
#pragma once
#include <tandem/parallel/header.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace tandem {

class TANDEM_API FlightRecord {
 public:
  static constexpr size_t kKept = 64;
  using Clock = std::chrono::steady_clock;

  struct Entry {
    enum class State : uint8_t { running, done, failed };
    Header header;
    std::string label;
    Clock::time_point started, ended;
    State state = State::running;
  };

  /// A collective begins; those of a communicator run one at a time.
  void begin(const Header& header, const std::string& label);
  /// The one that began last has ended.
  void end(bool well);
  /// Oldest first. From any thread.
  std::vector<Entry> entries() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> ring_;  // made at the first collective
  uint64_t begun_ = 0;
};

/// "number 7 all_reduce 'bucket 2 of 5' done; ..." of the last few.
TANDEM_API std::string short_text(const FlightRecord& record, size_t last);
/// A line for each, with how long before `now` it began and how long it took.
TANDEM_API std::string long_text(const FlightRecord& record, FlightRecord::Clock::time_point now);

}  // namespace tandem
