// Members of a group by a store: who is missing, who contradicts, who has died, left, or hangs, and what the others are
// told. Ranks are threads here where nobody dies, and processes where somebody does.
#include "tests/support/child.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <tandem/parallel/join_group.h>
#include <tandem/parallel/store_server.h>
#include <tandem/parallel/transport.h>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTimeout{10'000};

// A port that is free, for groups whose members must know it beforehand.
int free_port() { return StoreServer::at("127.0.0.1", 0, "")->port(); }

Rendezvous at(int port, int rank, int size) {
  Rendezvous r;
  r.rank = rank;
  r.world_size = size;
  r.host = "127.0.0.1";
  r.port = port;
  return r;
}

// A member with one channel of all ranks, whose collectives are made of the group's keys.
struct Rank {
  std::unique_ptr<StoreMembership> membership;
  std::shared_ptr<Channel> channel;

  explicit Rank(const Rendezvous& r, milliseconds timeout = kTimeout, milliseconds rendezvous = kTimeout)
      : membership(join_group(r, nullptr, timeout, rendezvous)) {
    std::vector<int> all(static_cast<size_t>(r.world_size));
    std::iota(all.begin(), all.end(), 0);
    channel = membership->open("world", all);
  }

  void barrier(milliseconds timeout = kTimeout) {
    Header h;
    h.sequence = channel->begin();
    const std::string label = "test";
    Wait wait(*membership, *channel, h, label, timeout);
    membership->look_for_absent(*channel);
    membership->check();
    membership->put(message(h.sequence, '/', membership->rank()), "here");
    for (int r : channel->members) {
      const std::string got = membership->get(message(h.sequence, '/', r), wait);
      CHECK(got == "here");
      wait.advance();
    }
    channel->end(true);
  }
};

// Another process that takes this rank for its own, in the first group at this address.
void join_again(int port, int rank, int size) {
  StoreMembershipOptions o;
  o.rank = rank;
  o.size = size;
  o.locate = [port](std::string&) { return StoreAddress{"127.0.0.1", port}; };
  const StoreMembership second(o);
}

struct Outcome {
  std::string what;
  int culprit = -2;  // -2 where nothing was thrown
};

// Runs fn(rank) for each rank in a thread; what each ended in.
template <class F>
std::vector<Outcome> in_threads(int ranks, F fn) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        fn(r);
      } catch (const CommError& e) {
        outcomes[size_t(r)] = {e.what(), e.rank};
      }
    });
  for (auto& t : threads) t.join();
  return outcomes;
}

double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);  // the same for all processes
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

int entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return int(std::distance(begin(all), end(all)));
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

TEST_CASE("a group of threads: collectives by keys, and an orderly end") {
  const int port = free_port();
  const auto outcomes = in_threads(4, [&](int rank) {
    Rank r(at(port, rank, 4));
    CHECK(r.membership->rank() == rank);
    CHECK(r.membership->size() == 4);
    CHECK(r.membership->local_host() == "127.0.0.1");
    for (int i = 0; i < 20; ++i) r.barrier();
  });
  for (auto& o : outcomes) CHECK(o.what == "");
}

TEST_CASE("missing ranks are named at the deadline, on all, and by a roll-call before") {
  LogCapture log;
  const int port = free_port();
  const auto begin = Clock::now();
  const auto outcomes = in_threads(4, [&](int rank) {
    if (rank == 1 || rank == 3) return;
    Rank r(at(port, rank, 4), kTimeout, milliseconds(2500));
  });
  for (int rank : {0, 2}) {
    CHECK(says(outcomes[size_t(rank)].what, "ranks 1, 3 of 4 did not come by the deadline"));
    CHECK(outcomes[size_t(rank)].culprit == 1);
    CHECK(!log.find(message("rank ", rank, " waits for ranks 1, 3 of 4")).empty());
  }
  CHECK(Clock::now() - begin < milliseconds(5000));
}

TEST_CASE("latecomers learn why nothing came of the group, and all may try again") {
  const LogCapture quiet;
  const int port = free_port();
  const auto outcomes = in_threads(3, [&](int rank) {
    std::string first;
    if (rank == 2) std::this_thread::sleep_for(milliseconds(700));
    try {
      Rank r(at(port, rank, 3), kTimeout, milliseconds(rank == 2 ? 5000 : 400));
      FAIL_CHECK("it was formed");
    } catch (const CommError& e) {
      CHECK(says(e.what(), "rank 2 of 3 did not come"));
      CHECK(e.rank == 2);
    }
    Rank again(at(port, rank, 3));
    again.barrier();
  });
  for (auto& o : outcomes) CHECK(o.what == "");
}

TEST_CASE("a contradiction before all have joined is a verdict for all") {
  const LogCapture quiet;
  SUBCASE("another world size") {
    const int port = free_port();
    const auto outcomes = in_threads(3, [&](int rank) {
      std::this_thread::sleep_for(milliseconds(100 * rank));
      Rank r(at(port, rank, rank == 1 ? 4 : 3));
    });
    for (auto& o : outcomes) {
      CHECK(says(o.what, "the ranks disagree on the world size: it is 3 for rank 0 (process "));
      CHECK(says(o.what, "and 4 for rank 1 (process "));
      CHECK(o.culprit == -1);
    }
  }
  SUBCASE("a rank that is taken twice") {
    const int port = free_port();
    const auto outcomes = in_threads(3, [&](int rank) {
      std::this_thread::sleep_for(milliseconds(100 * rank));
      if (rank == 2) return join_again(port, 1, 3);
      Rank r(at(port, rank, 3));
    });
    for (auto& o : outcomes) CHECK(says(o.what, "two processes both say that they are rank 1: process "));
  }
}

TEST_CASE("after all have joined a newcomer alone is refused") {
  const LogCapture quiet;
  const int port = free_port();
  const auto outcomes = in_threads(2, [&](int rank) {
    Rank r(at(port, rank, 2));
    r.barrier();
    if (rank == 1) {
      try {
        join_again(port, 1, 2);
        FAIL_CHECK("it was let in");
      } catch (const CommError& e) {
        CHECK(says(e.what(), "group 0 at this address is complete, rank 1 being process "));
      }
    }
    r.barrier();
  });
  for (auto& o : outcomes) CHECK(o.what == "");
}

TEST_CASE("ranks that were started again don't meet those of before, whoever comes first") {
  auto started_again = [](Rendezvous r, int restarts) {
    r.restarts = restarts;
    return r;
  };
  const int port = free_port();
  const auto outcomes = in_threads(4, [&](int i) {
    if (i < 2) {  // the two of restart 1
      Rank rank(started_again(at(port, i, 2), 1));
      rank.barrier();
      if (i == 0) std::this_thread::sleep_for(milliseconds(700));  // there while the others come
      rank.barrier();
    } else {
      std::this_thread::sleep_for(milliseconds(i == 2 ? 200 : 400));
      Rank rank(started_again(at(port, 1, 2), i == 2 ? 0 : 2), kTimeout, milliseconds(1500));
    }
  });
  // One of before is refused alone. One of the next start ends this one, and waits for its like.
  CHECK(says(outcomes[2].what, "and the ranks have been started again since: this is restart 1"));
  for (int i : {0, 1}) {
    INFO(outcomes[size_t(i)].what);
    CHECK(says(outcomes[size_t(i)].what, "of restart 2; this is group 0 of restart 1"));
    CHECK(outcomes[size_t(i)].culprit == 1);
  }
  INFO(outcomes[3].what);
  CHECK(says(outcomes[3].what, "rank 1: rank 0's store"));
}

TEST_CASE("ranks of the next start meet where the store of the one before is still there") {
  const int port = free_port();
  const auto outcomes = in_threads(3, [&](int i) {
    Rendezvous r = at(port, i == 1 ? 1 : 0, 2);
    r.restarts = i == 0 ? 0 : 1;
    if (i == 2) std::this_thread::sleep_for(milliseconds(1500));  // the new rank 0 comes last
    if (i == 1) std::this_thread::sleep_for(milliseconds(100));
    Rank rank(r);
    rank.barrier();
  });
  CHECK(says(outcomes[0].what, "belongs to group 0 of restart 1; this is group 0"));
  for (int i : {1, 2}) CHECK(outcomes[size_t(i)].what == "");
}

TEST_CASE("a rank that leaves is missed only where it is needed") {
  const int port = free_port();
  const auto outcomes = in_threads(3, [&](int rank) {
    Rank r(at(port, rank, 3));
    r.barrier();
    r.barrier();
    if (rank == 2) return r.membership->leave("it has had enough");
    auto pair = r.membership->open("pair", {0, 1});
    for (int i = 0; i < 7; ++i) pair->begin(), pair->end(true);
    std::this_thread::sleep_for(milliseconds(100));
    r.membership->look_for_absent(*pair);
    CHECK_NOTHROW(r.membership->check());
    r.barrier();
  });
  for (int rank : {0, 1}) {
    CHECK(says(outcomes[size_t(rank)].what,
               "rank 2 has left the group: it has had enough; its last collective in world "
               "was number 2"));
    CHECK(outcomes[size_t(rank)].culprit == 2);
  }
  CHECK(outcomes[2].what == "");
}

TEST_CASE("an exception that ends a rank's group is told to those who need it") {
  const int port = free_port();
  const auto outcomes = in_threads(2, [&](int rank) {
    Rank r(at(port, rank, 2));
    r.barrier();
    if (rank == 1) throw CommError("own trouble");
    r.barrier();
  });
  CHECK(says(outcomes[0].what, "rank 1 has left the group: it was ended by an exception"));
}

TEST_CASE("who leaves after a failure stays until the others have said why they fail, or have had the time to") {
  constexpr milliseconds kTime{300};
  for (bool in_time : {true, false}) {
    CAPTURE(in_time);
    const int port = free_port();
    std::atomic<bool> ready{false}, left{false}, other_left{false};
    in_threads(2, [&](int r) {
      Rank rank(at(port, r, 2));
      rank.barrier();
      if (r == 1) {
        while (!ready) std::this_thread::sleep_for(milliseconds(1));
        rank.membership->report(-1, "something is wrong");
        const auto begin = Clock::now();
        rank.membership->leave("");
        const bool alone = !other_left;
        left = true;
        if (alone) CHECK(Clock::now() - begin >= kTime - milliseconds(20));
        CHECK((in_time || alone));
      } else {
        ready = true;
        std::this_thread::sleep_for(milliseconds(50));
        for (const auto until = Clock::now() + kTimeout; !in_time && !left && Clock::now() < until;)
          std::this_thread::sleep_for(milliseconds(1));
        other_left = true;
      }
    });
    CHECK(left);
  }
}

TEST_CASE("rank 0 may leave first") {
  const int port = free_port();
  const auto outcomes = in_threads(3, [&](int rank) {
    Rank r(at(port, rank, 3));
    r.barrier();
    if (rank == 0) return;
    std::this_thread::sleep_for(milliseconds(1300));  // by now the store has ended, without a verdict
    CHECK_NOTHROW(r.membership->check());
    if (rank == 1) r.barrier();
  });
  CHECK(outcomes[0].what == "");
  CHECK(says(outcomes[1].what, "rank 0 has left the group"));
  CHECK(outcomes[2].what == "");
}

TEST_CASE("a report is the same verdict for all") {
  const int port = free_port();
  const auto outcomes = in_threads(3, [&](int rank) {
    Rank r(at(port, rank, 3));
    r.barrier();
    if (rank != 0) {
      r.membership->report(rank, message("trouble of rank ", rank));
      r.membership->check();
    }
    r.barrier();
  });
  for (auto& o : outcomes) {
    CHECK(says(o.what, message("trouble of rank ", o.culprit)));
    CHECK(o.culprit == outcomes[0].culprit);
  }
}

TEST_CASE("at a deadline the rank that lags behind is named, and nobody where all are equally far") {
  const int port = free_port();
  bool one_lags = false;
  SUBCASE("one lags") { one_lags = true; }
  SUBCASE("none does") {}
  const auto outcomes = in_threads(3, [&](int rank) {
    Rank r(at(port, rank, 3));
    r.barrier();
    if (one_lags && rank == 1) {
      while (!r.membership->failed()) std::this_thread::sleep_for(milliseconds(5));
      r.membership->check();
    }
    Header h;
    h.sequence = r.channel->begin();
    const std::string label = "bucket 3";
    Wait wait(*r.membership, *r.channel, h, label, milliseconds(300));
    for (;;) {
      std::this_thread::sleep_for(std::min(wait.nap(), milliseconds(5)));
      wait.check();
    }
  });
  for (auto& o : outcomes) {
    CHECK(says(o.what, "bucket 3"));
    CHECK(says(o.what, "after 0.3 s"));
    CHECK(says(o.what, one_lags ? "rank 1 lags behind" : "all ranks are equally far, and nobody is to blame"));
    CHECK(o.culprit == (one_lags ? 1 : -1));
  }
}

TEST_CASE("a wait for a key ends at once on a verdict, and where a member leaves that has not connected") {
  bool leaves = false;
  SUBCASE("a verdict") {}
  SUBCASE("a departure") { leaves = true; }
  const int port = free_port();
  const auto outcomes = in_threads(3, [&](int rank) {
    Rank r(at(port, rank, 3));
    r.barrier();
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(100));
      return leaves ? r.membership->leave("") : r.membership->report(-1, "no more of it");
    }
    const auto begin = Clock::now();
    const auto more = r.membership->open("more", {0, 1, 2});
    Connecting connecting(*r.membership, *more);
    Header h;
    const std::string label = "connecting more";
    Wait wait(*r.membership, *more, h, label, kTimeout);
    try {
      r.membership->get("never", wait);
    } catch (...) {
      CHECK(Clock::now() - begin < milliseconds(800));
      throw;
    }
  });
  for (int rank : {0, 2}) {
    CHECK(says(outcomes[size_t(rank)].what,
               leaves ? "rank 1 has left the group; it was not connected to more yet" : "no more of it"));
    CHECK(says(outcomes[size_t(rank)].what, "this rank was in connecting more"));
  }
}

TEST_CASE("a hundred groups, one after the other and two at once, on one port") {
  const LogCapture quiet;
  const int port = free_port();
  in_threads(2, [&](int rank) { Rank warm_up(at(port, rank, 2)); });
  const int threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
  const auto begin = Clock::now();
  const auto outcomes = in_threads(2, [&](int rank) {
    for (int i = 0; i < 100; ++i) {
      Rank r(at(port, rank, 2));
      if (i % 10 == 0) {
        Rank second(at(port, rank, 2));
        second.barrier();
      }
      r.barrier();
    }
  });
  for (auto& o : outcomes) CHECK(o.what == "");
  MESSAGE("110 groups of two in ", (Clock::now() - begin) / milliseconds(1), " ms");
  CHECK(entries("/proc/self/task") == threads);
  CHECK(entries("/proc/self/fd") == descriptors);
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
