// Members of a group by a store: who leaves, who reports and who lags, and what the others are told.
#include "tests/parallel/store_ranks.h"
#include "tests/support/log_capture.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using namespace tandem;
using namespace tandem::test;

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
