#include <tandem/core/timeline.h>

#include <chrono>

namespace tandem {

std::atomic<TimelineSink> detail::timeline_sink{nullptr};

TimelineSink set_timeline_sink(TimelineSink sink) { return detail::timeline_sink.exchange(sink); }

uint64_t detail::now_ns() {
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace tandem
