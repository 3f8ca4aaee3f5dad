#include "tests/support/program.h"

#include "tests/support/temporary_folder.h"

#include <tandem/core/error.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

extern char** environ;

namespace tandem::test {

Program::Program(const std::string& name, const std::vector<std::string>& args) {
  log_ = (std::filesystem::temp_directory_path() / "tandem-program-XXXXXX").string();
  int fd = mkstemp(log_.data());
  check(fd >= 0, "no temporary file for the output of ", name);
  std::string path = std::string(TANDEM_PROGRAM_DIR) + "/" + name;
  if (!std::filesystem::exists(path)) path = name;
  std::vector<std::string> all{path};
  all.insert(all.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (auto& a : all) argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
  int error = posix_spawnp(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fd);
  check(error == 0, "can't start ", path);
}

Program::~Program() {
  if (!done_) {
    signal(SIGKILL);
    wait();
  }
  unlink(log_.c_str());
}

void Program::signal(int number) const { kill(pid_, number); }

bool Program::running() {
  if (!done_ && waitpid(pid_, &status_, WNOHANG) == pid_) done_ = true;
  return !done_;
}

int Program::wait() {
  if (!done_ && waitpid(pid_, &status_, 0) == pid_) done_ = true;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

std::string Program::output() const { return read_text(log_); }

Finished run_program(const std::string& name, const std::vector<std::string>& args) {
  Program p(name, args);
  int code = p.wait();
  return {code, p.output()};
}

}  // namespace tandem::test
