#include "tests/deaths/trial.h"

#include "tests/deaths/phases.h"

#include <tandem/parallel/child_process.h>
#include <tandem/parallel/rank_environment.h>

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>

namespace tandem::deaths {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Until the victim has come to its end; for the others to end when they may.
constexpr milliseconds kComing{60'000}, kEnding{10'000};
// A death is told within this time, a silence so long after the deadline.
constexpr milliseconds kSoon{10'000};

constexpr const char* kMannerNames[] = {"SIGKILL", "exception", "exit 0", "SIGSTOP"};

milliseconds in_ms(Clock::duration d) { return std::chrono::duration_cast<milliseconds>(d); }

struct Heard {
  bool joined = false, left = false;
  std::optional<Clock::time_point> died, named;
  int culprit = -2;
  std::string what, failed;
};

class Stage {
 public:
  explicit Stage(const Trial& trial) : trial_(trial), phase_(phase_named(trial.phase)) {
    output_ = make_pipe();
    input_ = make_pipe();
    ::fcntl(output_.read.get(), F_SETFL, O_NONBLOCK);
    const int processes = trial.transport == "threads" ? 1 : trial.ranks;
    RankEnvironment e{.world_size = trial.ranks,
                      .local_world_size = trial.ranks,
                      .master_port = port_.number(),
                      .token = make_token()};
    for (; e.rank < processes; e.local_rank = ++e.rank)
      processes_.emplace_back(ChildProcessOptions{.command = to_arguments(trial),
                                                  .executable = "/proc/self/exe",
                                                  .environment = variables_of(e),
                                                  .input = input_.read.get(),
                                                  .output = output_.write.get()});
    output_.write = {};
    input_.read = {};
  }

  Result run() {
    if (trial_.killed_after.count() >= 0) kill_victim();
    auto all_heard = [&] { return all_survivors([](auto& h) { return h.named || h.left; }); };
    const auto& died = heard_[trial_.victim].died;
    hear_until(Clock::now() + kComing, [&] { return died || (!phase_.harmless && all_heard()); });
    hear_until(Clock::now() + trial_.deadline + kSoon, all_heard);
    result_.victim_ended = died.has_value();
    for (int r = 0; r < trial_.ranks; ++r)
      if (r != trial_.victim) judge(r);
    see_them_end();
    return result_;
  }

 private:
  template <class Done>
  void hear_until(Clock::time_point deadline, Done done) {
    while (!done() && Clock::now() < deadline) {
      pollfd p{output_.read.get(), POLLIN, 0};
      ::poll(&p, 1, int(std::clamp<int64_t>(in_ms(deadline - Clock::now()).count(), 0, 100)));
      char buffer[1 << 16];
      const ssize_t n = ::read(output_.read.get(), buffer, sizeof buffer);
      if (n == 0) return;
      if (n > 0) text_.append(buffer, size_t(n));
      for (size_t end; (end = text_.find('\n')) != text_.npos; text_.erase(0, end + 1)) take(text_.substr(0, end));
    }
  }

  void take(const std::string& line) {
    int rank = 0, used = 0;
    long long at = 0;
    check(std::sscanf(line.c_str(), "%d %lld %n", &rank, &at, &used) == 2, "a rank has said '", line, "'");
    Heard& h = heard_[rank];
    const Clock::time_point time{Clock::duration(at)};
    const std::string what = line.substr(size_t(used));
    if (what == "JOINED") h.joined = true;
    if (what == "LEFT") h.left = true;
    if (what == "DIES") h.died = time;
    if (what.starts_with("FAILED")) h.failed = what;
    if (!what.starts_with("NAMES ")) return;
    h.named = time;
    std::sscanf(what.c_str(), "NAMES %d %n", &h.culprit, &used);
    h.what = what.substr(size_t(used));
  }

  template <class F>
  bool all_survivors(F f) {
    for (int r = 0; r < trial_.ranks; ++r)
      if (r != trial_.victim && !f(heard_[r])) return false;
    return true;
  }

  void kill_victim() {
    Heard& victim = heard_[trial_.victim];
    if (trial_.after_joining)
      hear_until(Clock::now() + kComing,
                 [&] { return victim.joined && all_survivors([](auto& h) { return h.joined; }); });
    hear_until(Clock::now() + trial_.killed_after, [] { return false; });
    victim.died = Clock::now();
    processes_[size_t(trial_.victim)].signal(SIGKILL);
  }

  void judge(int rank) {
    const Heard& h = heard_[rank];
    ++result_.survivors;
    auto fault = [&](auto... parts) { result_.faults.push_back(message("rank ", rank, ' ', parts...)); };
    if (!h.failed.empty()) return fault(h.failed);
    const auto& died = heard_[trial_.victim].died;
    if (!died) return fault("is judged, and the victim has not come to its end");
    if (phase_.harmless) {
      if (h.named) return fault("was told: ", h.what);
      if (!h.left) return fault("has not ended");
      ++result_.named;
      return;
    }
    if (!h.named) return fault(h.left ? "has ended without having been told" : "was not told");
    const milliseconds took = in_ms(*h.named - *died);
    result_.slowest = std::max(result_.slowest, took);
    const std::string name = message("rank ", trial_.victim);
    if (h.culprit != trial_.victim) return fault("names ", h.culprit, ": ", h.what);
    if (h.what.find(name) == h.what.npos && h.what.find(message("ranks ", trial_.victim)) == h.what.npos)
      return fault("does not say who: ", h.what);
    auto has = [&](const std::string& word) { return h.what.find(word) != h.what.npos; };
    if (!phase_.words.empty() && std::none_of(phase_.words.begin(), phase_.words.end(), has))
      return fault("does not say what it was in: ", h.what);
    if (took > kSoon + (in_vain(trial_) ? trial_.deadline : milliseconds(0)))
      return fault("was told after ", took.count(), " ms");
    ++result_.named;
  }

  void see_them_end() {
    input_.write = {};
    const auto deadline = Clock::now() + kEnding;
    for (size_t i = 0; i < processes_.size(); ++i) {
      const bool victim = int(i) == trial_.victim && trial_.transport != "threads";
      if (victim && trial_.manner == Manner::stop) continue;  // killed when this goes
      const auto ended = processes_[i].wait_until(deadline);
      if (!ended) {
        result_.faults.push_back(message("process ", i, " does not end"));
      } else if (!as_expected(*ended, victim)) {
        result_.faults.push_back(message("process ", i, ' ', *ended));
      }
    }
  }

  bool as_expected(const Ended& e, bool victim) const {
    if (trial_.transport == "threads") return e.code == 1;
    if (!victim) return e.well();
    if (trial_.manner == Manner::kill) return e.signal == SIGKILL;
    return e.signal == 0 && e.code == (trial_.manner == Manner::exception ? 1 : 0);
  }

  const Trial trial_;
  const Phase& phase_;
  const ReservedPort port_{"127.0.0.1"};
  Pipe output_, input_;
  std::vector<ChildProcess> processes_;
  std::string text_;
  std::map<int, Heard> heard_;
  Result result_;
};

}  // namespace

bool in_vain(const Trial& t) {
  return t.manner == Manner::stop || !t.after_joining || phase_named(t.phase).found_at_deadline;
}

std::string to_string(Manner m) { return kMannerNames[int(m)]; }

std::string to_string(const Trial& t) {
  const std::string when = t.killed_after.count() < 0 ? ""
                                                      : message(", killed ", t.killed_after.count(), " ms after ",
                                                                t.after_joining ? "all had joined" : "its start");
  return message(t.phase, ", ", t.manner, ", ", t.transport, ", rank ", t.victim, " of ", t.ranks,
                 t.unwinds ? "" : ", the others hold their group", when);
}

std::vector<std::string> to_arguments(const Trial& t) {
  return {"tandem-deaths",
          "--as-rank",
          t.phase,
          std::to_string(int(t.manner)),
          t.transport,
          std::to_string(t.ranks),
          std::to_string(t.victim),
          t.unwinds ? "1" : "0",
          std::to_string(t.killed_after.count()),
          t.after_joining ? "1" : "0",
          t.log ? "1" : "0",
          std::to_string(t.deadline.count())};
}

Trial from_arguments(const std::vector<std::string>& a) {
  check(a.size() == 12, "a rank of a trial with ", a.size(), " arguments");
  return {.phase = a[2],
          .manner = Manner(std::stoi(a[3])),
          .transport = a[4],
          .ranks = std::stoi(a[5]),
          .victim = std::stoi(a[6]),
          .unwinds = a[7] == "1",
          .killed_after = milliseconds(std::stoll(a[8])),
          .after_joining = a[9] == "1",
          .deadline = milliseconds(std::stoll(a[11])),
          .log = a[10] == "1"};
}

Result run(const Trial& trial) { return Stage(trial).run(); }

}  // namespace tandem::deaths
