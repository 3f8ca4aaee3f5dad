// Ranks as processes that execute this binary again. The call stands in a test case of its own, which the tests start
// in a process (so that what is executed again runs that case alone), told by the environment what is to happen.
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/core/error.h>
#include <tandem/parallel/process_group.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/spawn.h>

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// All that the ranks and their parent say goes to one file, a line each.
void say(const std::string& line) {
  std::ofstream out(variable("SAY_TO"), std::ios::app);
  out << line + "\n" << std::flush;
}

void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(1s);
}

// What rank 1 does when the others are there.
void fail(const std::string& what) {
  write_text(variable("SAY_TO") + ".failed", message(Clock::now().time_since_epoch().count()));
  if (what == "throw") {
    throw ShapeError("[linear] these\ndo not fit");
  } else if (what == "throw and hang") {
    static const struct Slow {
      ~Slow() { sleep_for_ever(); }
    } slow;
    throw Error("found before the end");
  } else if (what == "throw something else") {
    throw 3;
  } else if (what == "kill") {
    ::raise(SIGKILL);
  } else if (what == "crash") {
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
  } else if (what == "exit") {
    std::exit(0);
  } else if (what == "long") {
    throw Error(std::string(300'000, 'x'));
  }
}

// Collectives without end, of a group that hears rank 1's goodbye before its caller hears the reason.
void reduce_for_ever(int rank) {
  struct Late {
    bool really;
    ~Late() {
      if (really) std::this_thread::sleep_for(100ms);
    }
  } late{rank == 1};
  ProcessGroup group = init_process_group();
  for (int i = 0;; ++i) {
    Tensor x = ones({1000});
    group.communicator().all_reduce(x);
    if (rank != 1 || i < 3) continue;
    write_text(variable("SAY_TO") + ".failed", message(Clock::now().time_since_epoch().count()));
    throw Error("the cause");
  }
}

// Two ranks in each process, of which rank 2, process 1's, comes to the first collective when all others have given up:
// each of them throws that rank 2 lags behind.
void lag() {
  std::atomic<bool> given_up{false};
  auto reduce = [&](int rank) {
    if (rank == 2) given_up.wait(false);
    struct Tell {
      std::atomic<bool>& given_up;
      bool really;
      ~Tell() {
        if (!really) return;
        given_up = true;
        given_up.notify_all();
      }
    } tell{given_up, rank == 3};
    Tensor x = ones({1000});
    current_process_group().communicator().all_reduce(x);
  };
  run_replicas(2, reduce, {.timeout = 1s});
}

// What each rank does.
void act(int rank) {
  const std::string what = variable("ACT");
  ::signal(SIGTERM, SIG_DFL);  // doctest's handler prints
  if (what == "environment") {
    say(message(rank, ' ', variable("RANK"), '/', variable("WORLD_SIZE"), ' ', variable("LOCAL_RANK"), '/',
                variable("LOCAL_WORLD_SIZE"), ' ', variable("MASTER_ADDR"), ' ',
                variable("MASTER_PORT").empty() ? "no" : "a", " port, ", variable("TANDEM_TOKEN").size(), " digits"));
  } else if (what == "hang") {
    say(message("pid ", ::getpid()));
    sleep_for_ever();
  } else if (what == "all_reduce") {
    ProcessGroup group = init_process_group();
    Tensor x = full({3}, rank + 1.0);
    group.communicator().all_reduce(x);
    say(message(rank, ": ", x.to_vector<float>()[2]));
  } else if (what == "echo") {
    reduce_for_ever(rank);
  } else if (what == "lag") {
    lag();
  } else if (what == "nested") {
    try {
      spawn([](int) {}, 2);
    } catch (const Error& e) {
      say(e.what());
    }
  } else if (rank != 1) {
    if (rank == 0) ::signal(SIGTERM, SIG_IGN);  // it must be killed
    write_text(message(variable("SAY_TO"), ".up", rank), "");
    sleep_for_ever();
  } else {
    for (int other : {0, 2})
      while (!std::filesystem::exists(message(variable("SAY_TO"), ".up", other))) std::this_thread::sleep_for(1ms);
    fail(what);
  }
}

struct Told {
  int code;
  std::vector<std::string> lines;
};

// Runs the case below.
Told tell(const std::string& act) {
  TemporaryFolder tmp;
  Child child("spawn: in a process of its own", {{"ACT", act}, {"SAY_TO", tmp / "said"}});
  Told t{child.wait(), {}};
  std::istringstream in(read_text(tmp / "said"));
  for (std::string line; std::getline(in, line);) t.lines.push_back(line);
  return t;
}

bool alive(pid_t pid) {
  const std::string stat = read_text(message("/proc/", pid, "/stat"));
  const auto name_ends = stat.rfind(") ");
  return name_ends != stat.npos && stat[name_ends + 2] != 'Z';
}

}  // namespace

TEST_CASE("spawn: in a process of its own" * doctest::skip()) {
  const bool parent = variable("TANDEM_SPAWN").empty();
  if (variable("ACT") == "main returns" && !parent && variable("RANK") == "1") return;
  if (variable("ACT") == "twice") {
    spawn([](int rank) { say(message("first ", rank)); }, 2);
    if (parent) say("between");
    spawn([](int rank) { say(message("second ", rank)); }, 1);
    return;
  }
  try {
    spawn(act, 3);
    say("all have returned");
  } catch (const CommError& e) {
    say(message("rank ", e.rank));
    const std::string what = e.what();
    say(what.size() > 1000 ? message(what.size()) : what);
    const std::string failed = read_text(variable("SAY_TO") + ".failed");
    if (failed.empty()) return;
    const double took =
        std::chrono::duration<double>(Clock::now().time_since_epoch() - Clock::duration(std::stoll(failed))).count();
    say(took < 2 ? "in time" : message("took ", took, " s"));
  }
}

TEST_CASE("spawn: each rank finds what env:// reads, and the parent returns when all have") {
  Told t = tell("environment");
  CHECK(t.code == 0);
  REQUIRE(t.lines.size() == 4);
  CHECK(t.lines[3] == "all have returned");
  std::sort(t.lines.begin(), t.lines.end() - 1);
  for (int r = 0; r < 3; ++r)
    CHECK(t.lines[size_t(r)] == message(r, ' ', r, "/3 ", r, "/3 127.0.0.1 a port, 32 digits"));
}

TEST_CASE("spawn: the second call runs the second function, and the first does nothing in it") {
  Told t = tell("twice");
  REQUIRE(t.lines.size() == 4);
  std::sort(t.lines.begin(), t.lines.begin() + 2);
  CHECK(t.lines == std::vector<std::string>{"first 0", "first 1", "between", "second 0"});
}

TEST_CASE("spawn: the first rank to fail is named, with the reason, and the others are stopped") {
  const std::pair<const char*, const char*> cases[] = {
      {"throw", "[spawn] rank 1 of 3 threw: [linear] these\ndo not fit"},
      {"throw something else", "[spawn] rank 1 of 3 threw: an exception that says nothing"},
      {"throw and hang", "[spawn] rank 1 of 3 threw: found before the end"},
      {"echo", "[spawn] rank 1 of 3 threw: the cause"},
      {"kill", "[spawn] rank 1 of 3 was killed by SIGKILL (Killed)"},
      {"crash", "[spawn] rank 1 of 3 was killed by SIGSEGV (Segmentation fault)"},
      {"exit", "[spawn] rank 1 of 3 exited with code 0 before its function returned"},
      {"long", "300027"},
  };
  for (auto& [act, why] : cases) {
    CAPTURE(std::string(act));
    Told t = tell(act);
    std::string said;
    for (auto& line : t.lines) said += line + "\n";
    CHECK(said == message("rank 1\n", why, "\nin time\n"));
  }
}

TEST_CASE("spawn: a process whose rank is to blame is named, where threads are ranks") {
  Told t = tell("lag");
  REQUIRE(t.lines.size() >= 2);
  CHECK(t.lines[0] == "rank 1");
  CHECK(t.lines[1].starts_with("[spawn] rank 1 of 3 threw: "));
  CHECK(says(t.lines[1], "rank 2 lags behind"));
}

TEST_CASE("spawn: a main that takes another way in the rank is an error that says so") {
  Told t = tell("main returns");
  REQUIRE(t.lines.size() == 2);
  CHECK(t.lines[1].ends_with(
      "rank 1 of 3 exited with code 0 without coming to this call of spawn: main took another way in it"));
}

TEST_CASE("spawn: the ranks are a group by env://") {
  Told t = tell("all_reduce");
  REQUIRE(t.lines.size() == 4);
  std::sort(t.lines.begin(), t.lines.end() - 1);
  for (int r = 0; r < 3; ++r) CHECK(t.lines[size_t(r)] == message(r, ": ", 6.0));
  CHECK(t.lines[3] == "all have returned");
}

TEST_CASE("spawn: not in a rank") {
  Told t = tell("nested");
  REQUIRE(t.lines.size() == 4);
  CHECK(t.lines[0] == "[spawn] called in a process that spawn has started, which is a rank already");
  CHECK(t.lines[3] == "all have returned");
}

TEST_CASE("spawn: the ranks end with their parent, also when it is killed") {
  TemporaryFolder tmp;
  Child parent("spawn: in a process of its own", {{"ACT", "hang"}, {"SAY_TO", tmp / "said"}});
  std::vector<pid_t> pids;
  for (const auto until = Clock::now() + 10s; pids.size() < 3 && Clock::now() < until;) {
    std::this_thread::sleep_for(5ms);
    pids.clear();
    std::istringstream in(read_text(tmp / "said"));
    for (std::string line; std::getline(in, line) && !in.eof();) pids.push_back(pid_t(std::stol(line.substr(4))));
  }
  REQUIRE(pids.size() == 3);
  parent.signal(SIGKILL);
  const auto began = Clock::now();
  while (std::any_of(pids.begin(), pids.end(), alive) && Clock::now() < began + 5s) std::this_thread::sleep_for(1ms);
  CHECK(Clock::now() - began < 1s);
}

TEST_CASE("spawn: at least one process") {
  CHECK_THROWS_WITH_AS(spawn([](int) {}, 0), "[spawn] 0 processes: at least one", Error);
}
