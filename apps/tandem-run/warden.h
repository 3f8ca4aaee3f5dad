/// Warden: a small process that outlives the launcher by a moment. Where the launcher is killed, so that it can't clean
/// up, the ranks die with it, but not what they have started: the warden ends that, and removes the launcher's files.
#pragma once
#include <tandem/parallel/descriptor.h>

#include <string>

#include <sys/types.h>

namespace tandem::launcher {

class Warden {
 public:
  /// To be made before the process has a second thread.
  explicit Warden(const std::string& folder);
  /// It ends, too.
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  /// From now on it ends this process group when the launcher ends.
  void watch(pid_t group) { tell(group); }
  /// The group has ended.
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);
  Descriptor to_;
  pid_t pid_ = -1;
};

}  // namespace tandem::launcher
