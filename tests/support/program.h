/// The project's programs as a user runs them, and others: a process of its own, whose output is kept and which may be
/// killed.
#pragma once
#include <string>
#include <vector>

#include <sys/types.h>

namespace tandem::test {

/// A running program. Killed and waited for at the latest when this goes.
class Program {
 public:
  /// Starts build/.../bin/NAME, or else what has that name along PATH, with its output and errors in one text. Throws
  /// Error where it can't be started.
  Program(const std::string& name, const std::vector<std::string>& args);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void signal(int number) const;
  /// Its exit code, or minus the signal that ended it.
  int wait();
  bool running();
  /// What it has printed; complete after wait().
  std::string output() const;

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool done_ = false;
  std::string log_;
};

struct Finished {
  int code;
  std::string output;
};
/// Runs a program to its end.
Finished run_program(const std::string& name, const std::vector<std::string>& args);

}  // namespace tandem::test
