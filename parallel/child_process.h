/// Not installed. ChildProcess: a program that this process has started, and that ends with it. fork and exec alone (a
/// child that went on after fork would hang in its first parallel region); no descriptor but its standard ones reaches
/// it, so that nothing it holds hides a death.
#pragma once
#include <tandem/core/export.h>
#include <tandem/parallel/descriptor.h>

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

/// How a process has ended.
struct Ended {
  int code = 0;    // its exit code; -1 where it is not known, since another part of the program has waited for it
  int signal = 0;  // what killed it, else 0
  bool well() const { return code == 0 && signal == 0; }
};
/// "exited with code 3", "was killed by SIGSEGV (Segmentation fault)"
TANDEM_API std::string to_string(const Ended& e);
/// "SIGKILL"; "signal 40" where it has no name.
TANDEM_API std::string signal_name(int number);

struct ChildProcessOptions {
  std::vector<std::string> command;                     // the program, looked up along PATH, and its arguments
  std::string executable = {};                          // what runs, where that is not command[0]
  std::map<std::string, std::string> environment = {};  // added to this process's, or in place of its variables
  std::vector<int> cores = {};                          // that it may run on; empty: those of this process
  /// A process group of its own: signals reach what it has started, too, and the terminal's do not reach it.
  bool own_group = true;
  int input = -1, output = -1, error = -1;  // descriptors that become its standard ones; -1: this process's
  int pass = -1;                            // one more, which it finds as kPassed
};

class TANDEM_API ChildProcess {
 public:
  static constexpr int kPassed = 3;

  /// Returns when the program runs. It is killed when the thread that calls this ends: that must be one that lives as
  /// long. Throws Error where it can't be started.
  explicit ChildProcess(const ChildProcessOptions& options);
  /// Kills it, and what is left of its group, and waits for it unless the kernel holds it.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  /// Readable, to poll, once it has ended.
  int event() const { return event_.get(); }
  /// To its group if it has one of its own.
  void signal(int number) const;
  /// How it has ended; nothing while it runs.
  std::optional<Ended> ended();
  /// The same, waiting until the deadline.
  std::optional<Ended> wait_until(std::chrono::steady_clock::time_point deadline);

 private:
  pid_t pid_ = -1;
  bool own_group_ = true;
  Descriptor event_;
  std::optional<Ended> ended_;
};

/// A pipe whose ends no child inherits.
struct Pipe {
  Descriptor read, write;
};
/// Throws Error where there are no descriptors left.
TANDEM_API Pipe make_pipe();

/// Asks all that run to end, by SIGTERM, and kills those which have not after `grace`. Returns when none runs, or the
/// kernel does not let one go.
TANDEM_API void stop(std::vector<ChildProcess>& children, std::chrono::milliseconds grace);

}  // namespace tandem
