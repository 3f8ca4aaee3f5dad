#include "tests/support/child.h"

#include <tandem/core/error.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

namespace tandem::test {

Child::Child(const std::string& test_case, const std::map<std::string, std::string>& environment) {
  std::vector<std::string> variables;
  for (char** e = environ; *e; ++e) {
    const std::string variable = *e;
    if (!environment.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (auto& [name, value] : environment) variables.push_back(message(name, '=', value));
  std::vector<std::string> arguments{"child", "--no-skip", message("--test-case=", test_case), "--minimal"};
  auto pointers = [](std::vector<std::string>& v) {
    std::vector<char*> p;
    for (auto& s : v) p.push_back(s.data());
    p.push_back(nullptr);
    return p;
  };
  const int error =
      posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, pointers(arguments).data(), pointers(variables).data());
  check(error == 0, "posix_spawn: ", std::strerror(error));
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), code_(other.code_) {}

Child::~Child() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  wait();
}

void Child::signal(int number) const {
  if (pid_ >= 0) ::kill(pid_, number);
}

int Child::wait() {
  if (pid_ < 0) return code_;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool passes_in_child(const std::string& test_case, const std::map<std::string, std::string>& environment) {
  return Child(test_case, environment).wait() == 0;
}

}  // namespace tandem::test
