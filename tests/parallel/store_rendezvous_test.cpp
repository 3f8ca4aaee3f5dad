// How members meet at a store: who is missing, who contradicts, who comes too late or again, and what they are told.
#include "tests/parallel/store_ranks.h"
#include "tests/support/in_use.h"
#include "tests/support/log_capture.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>

#include <thread>

using namespace tandem;
using namespace tandem::test;

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

TEST_CASE("a hundred groups, one after the other and two at once, on one port") {
  const LogCapture quiet;
  const int port = free_port();
  in_threads(2, [&](int rank) { Rank warm_up(at(port, rank, 2)); });
  const InUse before = in_use();
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
  check_in_use(before);
}
