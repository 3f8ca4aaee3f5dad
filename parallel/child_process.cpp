#include <tandem/core/error.h>
#include <tandem/parallel/child_process.h>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

// A killed process is gone at once, unless the kernel holds it (a dead disk or driver): then nobody can wait for it.
constexpr std::chrono::seconds kUnkillable{5};

// The program's path; a name without a slash is looked for along PATH.
std::string find_program(const std::string& name) {
  check(!name.empty(), "[child_process] which program?");
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::string folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t from = 0; from <= folders.size();) {
    const size_t to = std::min(folders.find(':', from), folders.size());
    const std::string found = message(to == from ? "." : folders.substr(from, to - from), '/', name);
    if (::access(found.c_str(), X_OK) == 0) return found;
    from = to + 1;
  }
  const bool here = ::access(name.c_str(), F_OK) == 0;
  throw Error(message("can't start ", name, ": there is no such program along PATH",
                      here ? message("; the one in this folder is ./", name) : ""));
}

std::vector<std::string> variables(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** e = environ; *e; ++e) {
    const std::string variable = *e;
    if (!added.contains(variable.substr(0, variable.find('=')))) all.push_back(variable);
  }
  for (auto& [name, value] : added) all.push_back(message(name, '=', value));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (auto& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

// What the child needs between fork and exec, where it may not allocate.
struct Plan {
  const char* path;
  char* const* argv;
  char* const* envp;
  bool own_group;
  cpu_set_t cores;
  bool pinned;
  int parent;
  int descriptors[4];  // what becomes 0, 1, 2 and kPassed; -1: as it is
};

// Other threads' locks may be held in this copy of the process: system calls alone.
[[noreturn]] void become(Plan& plan, int report) {
  auto fail = [&] {
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof error);
    ::_exit(127);
  };
  if (plan.own_group && ::setpgid(0, 0) != 0) fail();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (::getppid() != plan.parent) ::_exit(127);  // which has ended before the line above
  if (plan.pinned && ::sched_setaffinity(0, sizeof plan.cores, &plan.cores) != 0) fail();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  // All are moved out of the way first: one may have a number that another is to get.
  constexpr int kStandard = 4;
  report = ::fcntl(report, F_DUPFD_CLOEXEC, kStandard);
  if (report < 0) ::_exit(127);
  for (int& d : plan.descriptors)
    if (d >= 0 && (d = ::fcntl(d, F_DUPFD_CLOEXEC, kStandard)) < 0) fail();
  for (int to = 0; to < kStandard; ++to)
    if (plan.descriptors[to] >= 0 && ::dup2(plan.descriptors[to], to) < 0) fail();
  const unsigned first = plan.descriptors[ChildProcess::kPassed] >= 0 ? kStandard : ChildProcess::kPassed;
  if (::close_range(first, ~0U, CLOSE_RANGE_CLOEXEC) != 0)  // a kernel before 5.11
    for (int fd = int(first); fd < 1024; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::execve(plan.path, plan.argv, plan.envp);
  fail();
  ::_exit(127);
}

}  // namespace

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? message("SIG", name) : message("signal ", number);
}

std::string to_string(const Ended& e) {
  if (e.signal) return message("was killed by ", signal_name(e.signal), " (", ::strsignal(e.signal), ')');
  if (e.code < 0) return "ended, and another part of the program took its exit code";
  return message("exited with code ", e.code);
}

Pipe make_pipe() {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC) == 0, "[child_process] no pipe could be made: ", std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

ChildProcess::ChildProcess(const ChildProcessOptions& o) : own_group_(o.own_group) {
  check(!o.command.empty(), "[child_process] which program?");
  const std::string path = o.executable.empty() ? find_program(o.command[0]) : o.executable;
  std::vector<std::string> arguments = o.command, environment = variables(o.environment);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  Plan plan{path.c_str(), argv.data(),      envp.data(),     o.own_group,
            {},           !o.cores.empty(), int(::getpid()), {o.input, o.output, o.error, o.pass}};
  for (int core : o.cores) CPU_SET(size_t(core), &plan.cores);

  Pipe report = make_pipe();
  pid_ = ::fork();
  check(pid_ >= 0, "can't start ", path, ": ", std::strerror(errno));
  if (pid_ == 0) become(plan, report.write.get());
  report.write = Descriptor();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(report.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got == 0) {
    event_ = Descriptor(int(::syscall(SYS_pidfd_open, pid_, 0)));
    if (event_) return;
    error = errno;
    ::kill(pid_, SIGKILL);
  }
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  throw Error(message("can't start ", path, ": ", std::strerror(error)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      own_group_(other.own_group_),
      event_(std::move(other.event_)),
      ended_(other.ended_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || (ended_ && ended_->code < 0)) return;
  // Not waited for before, it has kept its number, and its group's, from others.
  signal(SIGKILL);
  if (!wait_until(Clock::now() + kUnkillable)) return;
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::signal(int number) const {
  if (own_group_)
    ::kill(-pid_, number);
  else if (!ended_)
    ::kill(pid_, number);
}

std::optional<Ended> ChildProcess::ended() {
  if (ended_) return ended_;
  siginfo_t info{};
  int result = 0;
  while ((result = ::waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT)) < 0 && errno == EINTR) {
  }
  if (result < 0)
    ended_ = Ended{.code = -1};
  else if (info.si_pid == pid_)
    ended_ = info.si_code == CLD_EXITED ? Ended{.code = info.si_status} : Ended{.signal = info.si_status};
  return ended_;
}

std::optional<Ended> ChildProcess::wait_until(Clock::time_point deadline) {
  while (!ended()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    pollfd p{event(), POLLIN, 0};
    ::poll(&p, 1, int(std::min<int64_t>(left, 60'000)));
  }
  return ended_;
}

void stop(std::vector<ChildProcess>& children, std::chrono::milliseconds grace) {
  for (auto& c : children)
    if (!c.ended()) c.signal(SIGTERM);
  const auto deadline = Clock::now() + grace;
  for (auto& c : children)
    if (!c.wait_until(deadline)) c.signal(SIGKILL);
  const auto last = Clock::now() + kUnkillable;
  for (auto& c : children) c.wait_until(last);
}

}  // namespace tandem
