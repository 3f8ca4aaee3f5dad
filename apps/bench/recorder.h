/// Recorder: the timeline of a training step, from what the library reports and what the bench does itself; and what
/// follows from it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::bench {

/// What one thread did. `who` is what it did it for: "rank 1", "replica 0", or "caller" for the thread that owns the
/// replicas of DataParallel.
struct Event {
  std::string who;
  int thread = 0;
  std::string kind;  // phase, closure, kernel, collective; ready and delay, of buckets
  std::string name, label;
  int64_t begin_ns = 0, end_ns = 0;
  size_t bytes = 0;
};

/// One per process, since the library's sink is. Records from all threads while it is on.
class Recorder {
 public:
  static void start();
  static void stop();
  static void add(Event e);
  /// Those recorded so far that are `who`'s (empty: all), from begin_ns to end_ns, by their begin; longer ones first.
  static std::vector<Event> events(const std::string& who, int64_t begin_ns, int64_t end_ns);
  static void clear();
  /// The calling thread's number in its events.
  static int this_thread();
};

/// A phase of a step, on the calling thread.
class Phase {
 public:
  explicit Phase(const char* name);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const char* name_;
  int64_t begin_ns_;
};

/// The time of the calls, of the clock that the library reports.
int64_t now_ns();

/// In milliseconds.
struct StepSplit {
  double data = 0, forward = 0, backward = 0, exposed = 0, optimizer = 0;
  double communication = 0;  // the time in which collectives were under way
  size_t bytes = 0;
};
/// Of a step: for DDP the events of one rank, for DP those of all replicas and the caller. Exposed is communication
/// while nothing is computed: in DDP by that rank, in DP by any other replica than the one that adds up.
StepSplit split_of(const std::vector<Event>& events);

}  // namespace tandem::bench
