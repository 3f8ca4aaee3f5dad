#include <tandem/core/error.h>
#include <tandem/core/parallel_for.h>
#include <tandem/parallel/blamed_process.h>
#include <tandem/parallel/child_process.h>
#include <tandem/parallel/error_text.h>
#include <tandem/parallel/rank_environment.h>
#include <tandem/parallel/spawn.h>

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// "PARENT CALL": which process's child this is, and at which of its calls it runs its function. What a child starts
// inherits the variable, and has another parent.
constexpr char kVariable[] = "TANDEM_SPAWN";

// A rank that says another has failed is believed for this long, so that the other can be heard.
constexpr milliseconds kHearCause{300};
constexpr milliseconds kGrace{400};  // between SIGTERM and SIGKILL

// What a child tells its parent: that it came to the call, that its function has returned, or which process its groups
// blame and what the function threw, up to kEnd.
constexpr char kCame = 'c', kReturned = 'r', kThrew = 't', kEnd = '\0';

std::atomic<int> calls{0};       // so far
std::atomic<bool> busy{false};   // in one of them
std::atomic<bool> child{false};  // this is a rank, in its function

// The call at which this process is a rank; 0 where it was not started by spawn.
int call_of_this_child() {
  const char* variable = std::getenv(kVariable);
  if (!variable) return 0;
  char* rest = nullptr;
  const long parent = std::strtol(variable, &rest, 10);
  return parent == ::getppid() ? int(std::strtol(rest, nullptr, 10)) : 0;
}

void tell(char what, const std::string& text = {}) {
  const std::string bytes = what + text;
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(ChildProcess::kPassed, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno != EINTR) return;  // the parent is gone, and this process with it
    if (n > 0) at += size_t(n);
  }
}

[[noreturn]] void run_as_child(const std::function<void(int)>& fn) {
  ::fcntl(ChildProcess::kPassed, F_SETFD, FD_CLOEXEC);
  child = true;
  tell(kCame);
  const int rank = std::atoi(std::getenv("RANK"));
  int code = 0;
  try {
    fn(rank);
    tell(kReturned);
  } catch (...) {
    tell(kThrew, message(blamed_process(), ' ', error_text(std::current_exception()), kEnd));
    code = 1;
  }
  std::exit(code);
}

std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string a; std::getline(in, a, '\0');) arguments.push_back(a);
  check(!arguments.empty(), "[spawn] can't read /proc/self/cmdline");
  return arguments;
}

// By its name where that is still this program: it is what `ps` and `top` show.
std::string own_executable() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string name(path, n > 0 && n < ssize_t(sizeof path) ? size_t(n) : 0);
  return ::access(name.c_str(), X_OK) == 0 ? name : "/proc/self/exe";
}

struct Rank {
  Descriptor told;   // the pipe's end here
  std::string text;  // all it has told
  bool done = false, failed = false;
  bool is_echo = false;  // of another rank's failure
  std::string why = {};
};

void hear(Rank& r) {
  char buffer[4096];
  while (r.told) {
    const ssize_t n = ::read(r.told.get(), buffer, sizeof buffer);
    if (n > 0) r.text.append(buffer, size_t(n));
    if (n == 0) r.told = Descriptor();
    if (n < 0 && errno != EINTR) return;
  }
}

// What has become of a rank, as far as can be known.
void judge(Rank& r, int rank, const std::optional<Ended>& ended) {
  const char last = r.text.size() > 1 ? r.text[1] : '\0';
  if (last == kThrew && r.text.back() == kEnd) {  // its end may take longer
    const char* text = r.text.c_str() + 2;
    char* rest = nullptr;
    const long cause = std::strtol(text, &rest, 10);
    r.done = r.failed = true;
    r.is_echo = cause >= 0 && cause != rank;
    r.why = message("threw: ", rest + 1);
  } else if (ended) {
    r.done = true;
    r.failed = last != kReturned || !(ended->well() || ended->code < 0);
    r.why = to_string(*ended);
    if (ended->signal) return;
    if (r.text.empty())
      r.why += " without coming to this call of spawn: main took another way in it";
    else if (last != kReturned)
      r.why += " before its function returned";
  }
}

class Ranks {
 public:
  explicit Ranks(int n) : ranks_(size_t(n)) {}
  void start(int call, int threads);
  // Returns when all have ended; the first to fail, else -1.
  int wait();
  const std::string& why(int rank) const { return ranks_[size_t(rank)].why; }

 private:
  void look(milliseconds timeout);
  const ReservedPort port_{"127.0.0.1"};
  std::vector<Rank> ranks_;
  std::vector<ChildProcess> processes_;
  int first_ = -1;
};

void Ranks::start(int call, int threads) {
  RankEnvironment e{.world_size = int(ranks_.size()),
                    .local_world_size = int(ranks_.size()),
                    .master_port = port_.number(),
                    .token = make_token(),
                    .threads = threads};
  ChildProcessOptions o{.command = own_arguments(), .executable = own_executable(), .own_group = false};
  for (; e.rank < e.world_size; e.local_rank = ++e.rank) {
    Pipe pipe = make_pipe();
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    o.environment = variables_of(e);
    o.environment[kVariable] = message(::getpid(), ' ', call);
    o.pass = pipe.write.get();
    processes_.emplace_back(o);
    ranks_[size_t(e.rank)].told = std::move(pipe.read);
  }
}

void Ranks::look(milliseconds timeout) {
  std::vector<pollfd> polled;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].done) continue;
    polled.push_back({processes_[r].event(), POLLIN, 0});
    polled.push_back({ranks_[r].told.get(), POLLIN, 0});
  }
  ::poll(polled.data(), polled.size(), int(timeout.count()));
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].done) continue;
    const auto ended = processes_[r].ended();  // asked first: then all it has told is there
    hear(ranks_[r]);
    judge(ranks_[r], int(r), ended);
    if (!ranks_[r].failed) continue;
    if (first_ < 0 || (ranks_[size_t(first_)].is_echo && !ranks_[r].is_echo)) first_ = int(r);
  }
}

int Ranks::wait() {
  auto running = [&] { return std::count_if(ranks_.begin(), ranks_.end(), [](auto& r) { return !r.done; }); };
  while (running() && first_ < 0) look(std::chrono::seconds(60));
  const auto until = Clock::now() + kHearCause;
  while (running() && ranks_[size_t(first_)].is_echo && Clock::now() < until) look(milliseconds(10));
  stop(processes_, kGrace);
  return first_;
}

}  // namespace

void spawn(const std::function<void(int)>& fn, int n, SpawnOptions options) {
  check(n >= 1, "[spawn] ", n, " processes: at least one");
  check(!child, "[spawn] called in a process that spawn has started, which is a rank already");
  const int call = ++calls;
  if (const int mine = call_of_this_child()) {
    if (call == mine) run_as_child(fn);
    if (call < mine) return;
  }
  check(!busy.exchange(true), "[spawn] called by two threads at once");
  struct Free {
    ~Free() { busy = false; }
  } free;
  Ranks ranks(n);
  ranks.start(call, options.threads ? options.threads : std::max(1, num_threads() / n));
  const int first = ranks.wait();
  if (first >= 0) throw CommError(message("[spawn] rank ", first, " of ", n, ' ', ranks.why(first)), first);
}

}  // namespace tandem
