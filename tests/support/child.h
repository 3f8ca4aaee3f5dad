/// Running one test case of this binary in a process of its own: for what is read from the environment once, and for
/// ranks that are to be killed.
#pragma once
#include <map>
#include <string>

#include <sys/types.h>

namespace tandem::test {

/// A process that runs the (skipped) test case of that name with these variables added to the environment. What it
/// prints goes where this process prints. Killed and waited for at the latest when this goes.
class Child {
 public:
  /// Throws Error where no process can be started.
  Child(const std::string& test_case, const std::map<std::string, std::string>& environment);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  void signal(int number) const;
  /// Its exit code, or minus the signal that ended it.
  int wait();

 private:
  pid_t pid_ = -1;
  int code_ = 0;
};

/// True if it passed.
bool passes_in_child(const std::string& test_case, const std::map<std::string, std::string>& environment);

}  // namespace tandem::test
