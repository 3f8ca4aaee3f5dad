#include "apps/tandem-run/warden.h"

#include <tandem/core/error.h>
#include <tandem/parallel/child_process.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

namespace tandem::launcher {
namespace {

// Until the launcher's end of the pipe is closed, which is its end.
[[noreturn]] void keep_watch(int from, const std::string& folder) {
  std::set<pid_t> groups;
  pid_t group = 0;
  for (ssize_t got; (got = ::read(from, &group, sizeof group)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof group) break;
    if (group > 0)
      groups.insert(group);
    else
      groups.erase(-group);
  }
  for (pid_t g : groups) ::kill(-g, SIGKILL);
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  ::_exit(0);
}

}  // namespace

Warden::Warden(const std::string& folder) {
  Pipe pipe = make_pipe();
  pid_ = ::fork();
  check(pid_ >= 0, "no process could be started: ", std::strerror(errno));
  if (pid_ == 0) {
    ::setpgid(0, 0);  // the terminal's signals are not for it
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::prctl(PR_SET_NAME, "tandem-warden");
    // Whoever reads the launcher's output must not wait for the warden.
    const int null = ::open("/dev/null", O_RDWR);
    for (int standard = 0; standard < 3; ++standard) ::dup2(null, standard);
    pipe.write = Descriptor();
    keep_watch(pipe.read.get(), folder);
  }
  to_ = std::move(pipe.write);
}

Warden::~Warden() {
  to_ = Descriptor();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Warden::tell(pid_t group) {
  while (::write(to_.get(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

}  // namespace tandem::launcher
