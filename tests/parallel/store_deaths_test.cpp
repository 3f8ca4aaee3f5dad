// Members of a group by a store that die, stop or hang, in processes, and what the others are told.
#include "tests/parallel/store_ranks.h"
#include "tests/support/child.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>
#include <time.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

using namespace tandem;
using namespace tandem::test;

namespace {

double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);  // the same for all processes
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

std::string variable(const char* name) { return ::getenv(name); }

// Processes that run the test case "child: a member" below, and what each of them has said.
class Processes {
 public:
  Processes(int size, const std::string& does, milliseconds timeout = kTimeout, int joining = -1) : port(free_port()) {
    for (int r = 0; r < (joining < 0 ? size : joining); ++r)
      children_.push_back(std::make_unique<Child>(
          "child: a member", std::map<std::string, std::string>{{"TEST_RANK", message(r)},
                                                                {"TEST_SIZE", message(size)},
                                                                {"TEST_PORT", message(port)},
                                                                {"TEST_DOES", does},
                                                                {"TEST_TIMEOUT", message(timeout.count())},
                                                                {"TEST_OUT", folder_ / message(r)}}));
  }
  size_t size() const { return children_.size(); }
  Child& operator[](int rank) { return *children_[size_t(rank)]; }
  std::string said(int rank) const { return read_text(folder_ / message(rank)); }
  bool says(int rank, const std::string& text, milliseconds within = milliseconds(30'000)) const {
    const auto until = Clock::now() + within;
    while (!test::says(said(rank), text)) {
      if (Clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  void ready() {
    for (size_t r = 0; r < size(); ++r) REQUIRE(says(int(r), "READY\n"));
  }

  const int port;

 private:
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<Child>> children_;
};

// "CAUGHT <time> <culprit> <what>"
struct Caught {
  double time = 0;
  int culprit = -2;
  std::string what;
};
Caught caught(const Processes& p, int rank) {
  Caught c;
  const std::string said = p.said(rank);
  const size_t from = said.find("CAUGHT ");
  REQUIRE(from != said.npos);
  int used = 0;
  REQUIRE(std::sscanf(said.c_str() + from, "CAUGHT %lf %d %n", &c.time, &c.culprit, &used) == 2);
  c.what = said.substr(from + size_t(used));
  return c;
}

}  // namespace

TEST_CASE("child: a member" * doctest::skip()) {
  std::FILE* out = std::fopen(variable("TEST_OUT").c_str(), "w");
  auto say = [&](const std::string& text) {
    std::fputs((text + "\n").c_str(), out);
    std::fflush(out);
  };
  set_log_sink(nullptr);
  const int rank = std::stoi(variable("TEST_RANK"));
  const std::string does = variable("TEST_DOES");
  say("BEGIN");
  try {
    const milliseconds timeout(std::stoi(variable("TEST_TIMEOUT")));
    Rank r(at(std::stoi(variable("TEST_PORT")), rank, std::stoi(variable("TEST_SIZE"))), timeout);
    r.barrier();
    say("READY");
    if (does == "throw" && rank == 1) throw std::runtime_error("own trouble");
    if (does == "linger" && rank == 1) std::this_thread::sleep_for(milliseconds(60'000));
    for (;;) r.barrier(timeout);
  } catch (const CommError& e) {
    char time[64];
    std::snprintf(time, sizeof time, "%.6f", now());
    say(message("CAUGHT ", time, ' ', e.rank, ' ', e.what()));
    // Survivors stay alive: nothing may depend on their leaving at once.
    std::this_thread::sleep_for(milliseconds(300));
  } catch (const std::runtime_error& e) {
    say(message("OTHER ", e.what()));
  }
  std::fclose(out);
}

TEST_CASE("the death of a process is named on all others") {
  double slowest = 0;
  for (int victim : {0, 1, 3}) {
    CAPTURE(victim);
    Processes p(4, "loop");
    p.ready();
    std::this_thread::sleep_for(milliseconds(20));
    const double killed = now();
    p[victim].signal(SIGKILL);
    for (int r = 0; r < 4; ++r) {
      if (r == victim) continue;
      CAPTURE(r);
      REQUIRE(p.says(r, "CAUGHT "));
      REQUIRE(p[r].wait() == 0);
      const Caught c = caught(p, r);
      CHECK(c.culprit == victim);
      CHECK(says(c.what, message("rank ", victim)));
      CHECK(says(c.what, "has died: "));
      CHECK(c.time - killed < 10);
      slowest = std::max(slowest, c.time - killed);
    }
  }
  MESSAGE("from a kill to the last rank's error: ", slowest * 1e3, " ms at most");
}

TEST_CASE("a death during the rendezvous is named at once") {
  const LogCapture quiet;
  Processes p(3, "loop", kTimeout, 2);
  REQUIRE(p.says(1, "BEGIN"));
  std::this_thread::sleep_for(milliseconds(300));  // both wait for rank 2 now
  const double killed = now();
  p[1].signal(SIGKILL);
  REQUIRE(p.says(0, "CAUGHT "));
  const Caught c = caught(p, 0);
  CHECK(c.culprit == 1);
  CHECK(says(c.what, "has died before all had joined"));
  CHECK(c.time - killed < 5);
}

TEST_CASE("a process that an exception ends says goodbye with its reason") {
  Processes p(3, "throw");
  for (int r : {0, 2}) {
    REQUIRE(p.says(r, "CAUGHT "));
    const Caught c = caught(p, r);
    CHECK(c.culprit == 1);
    CHECK(says(c.what, "rank 1 has left the group: it was ended by an exception"));
  }
  CHECK(p.says(1, "OTHER own trouble"));
}

TEST_CASE("a stopped process is named at the deadline, also rank 0 with its store") {
  for (int victim : {1, 0}) {
    CAPTURE(victim);
    Processes p(3, "loop", milliseconds(1000));
    p.ready();
    p[victim].signal(SIGSTOP);
    const double stopped = now();
    for (int r = 0; r < 3; ++r) {
      if (r == victim) continue;
      CAPTURE(r);
      REQUIRE(p.says(r, "CAUGHT "));
      const Caught c = caught(p, r);
      CHECK(c.culprit == victim);
      CHECK(says(c.what, message("rank ", victim)));
      CHECK(says(c.what, "is silent"));
      CHECK(c.time - stopped > 0.9);
      CHECK(c.time - stopped < 6);
    }
    p[victim].signal(SIGCONT);
  }
}

TEST_CASE("a process that hangs, its heart beating, is named at the deadline") {
  Processes p(3, "linger", milliseconds(500));
  for (int r : {0, 2}) {
    REQUIRE(p.says(r, "CAUGHT "));
    const Caught c = caught(p, r);
    CHECK(c.culprit == 1);
    CHECK(says(c.what, "rank 1 lags behind"));
  }
}
