/// Pump: a thread that carries what the ranks print to the console and to files, so that a console that stands still
/// keeps nobody from seeing a rank die. Keeps the last lines of each stream.
#pragma once
#include <tandem/parallel/descriptor.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem::launcher {

/// A stream of a rank.
struct Stream {
  Descriptor from;
  int console = -1;       // 1 or 2; -1: not shown
  std::string prefix;     // of each line; without one bytes are shown as they come
  Descriptor file;        // where it is kept, too
  std::string line = {};  // the beginning of one that waits for its end, to be shown with the prefix
  std::string tail = {};  // the last it said
};

class Pump {
 public:
  Pump();
  /// Ends without what the streams have not said yet.
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  void add(std::shared_ptr<Stream> stream);
  /// Returns when the stream has ended, or at the deadline.
  void wait(const Stream& stream, std::chrono::steady_clock::time_point deadline);
  /// The last bytes of a stream.
  std::string tail(const Stream& stream);

 private:
  void run();
  void carry(Stream& s);
  void wake();

  Descriptor wake_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::shared_ptr<Stream>> streams_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tandem::launcher
