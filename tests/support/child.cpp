#include "tests/support/child.h"

#include <tandem/core/error.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace tandem::test {

bool passes_in_child(const std::string& test_case, const std::map<std::string, std::string>& environment) {
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
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, pointers(arguments).data(), pointers(variables).data());
  check(error == 0, "posix_spawn: ", std::strerror(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace tandem::test
