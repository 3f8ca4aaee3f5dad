/// Timeline: what the threads of a process do and when, for a profiler (tandem-bench is one). While nobody asks, each
/// place that reports costs one load.
#pragma once
#include <tandem/core/export.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

struct TimelineEvent {
  enum class Kind : uint8_t {
    kernel,      // a call of a kernel's slot, on the host
    closure,     // a node of the tape in a backward
    collective,  // from when a rank takes it up to when it is done: waiting for the others is part of it
  };
  Kind kind;
  std::string_view name;   // of the slot, the op, the collective
  std::string_view label;  // a collective's
  int rank;                // in a collective, the rank in its group; else -1, and the thread's context tells
  uint64_t begin_ns;       // of std::chrono::steady_clock
  uint64_t end_ns;
  size_t bytes;  // that a collective is about, on this rank
};

/// Called as each event ends, on the thread that it happened on, with texts that last as long as the call. May not
/// throw.
using TimelineSink = void (*)(const TimelineEvent&) noexcept;
/// From now on; null for nobody. Returns the one before.
TANDEM_API TimelineSink set_timeline_sink(TimelineSink sink);

namespace detail {
extern TANDEM_API std::atomic<TimelineSink> timeline_sink;
TANDEM_API uint64_t now_ns();
}  // namespace detail

/// An event as long as a scope. The texts must outlive it.
class TimelineSpan {
 public:
  explicit TimelineSpan(TimelineEvent::Kind kind, std::string_view name, std::string_view label = {}, int rank = -1,
                        size_t bytes = 0)
      : sink_(detail::timeline_sink.load(std::memory_order_relaxed)) {
    if (sink_) [[unlikely]]
      event_ = {kind, name, label, rank, detail::now_ns(), 0, bytes};
  }
  ~TimelineSpan() {
    if (!sink_) [[likely]]
      return;
    event_.end_ns = detail::now_ns();
    sink_(event_);
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  const TimelineSink sink_;
  TimelineEvent event_;
};

}  // namespace tandem
