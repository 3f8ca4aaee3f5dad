/// Signals: those that ask the launcher to end, or the job to pause, as something to read instead of handlers. (A
/// signal that whoever started the launcher ignores, as nohup does, stays ignored.)
#pragma once
#include <tandem/parallel/descriptor.h>

namespace tandem::launcher {

class Signals {
 public:
  /// To be made before the process has a second thread: all inherit that the signals are blocked.
  Signals();
  /// Readable, to poll, when there is one.
  int event() const { return event_.get(); }
  /// The next, 0 where there is none.
  int next();

 private:
  Descriptor event_;
};

}  // namespace tandem::launcher
