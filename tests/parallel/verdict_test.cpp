// What the ranks of a group are told when one fails: the first cause, whoever passes it on, and what they were in.
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/text.h"

#include <tandem/core/copy.h>

#include <doctest/doctest.h>

#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

TEST_CASE("a rank that fails for want of another passes on the cause, not itself") {
  const LogCapture quiet;
  for (const char* transport : kTransports) {
    CAPTURE(transport);
    const auto ends = run_group(transport, 3, [](ProcessGroup& g) {
      auto two = g.new_group({0, 1});
      g.barrier();
      if (g.rank() == 1) return;
      if (g.rank() == 0) {
        try {
          two->barrier();
        } catch (const CommError& e) {
          CHECK(e.rank == 1);
          g.communicator().abort("as its backward ended");
          throw;
        }
      }
      auto alone = g.new_group({2});
      std::this_thread::sleep_for(300ms);
      alone->barrier({.label = "on its own"});  // in need of nobody: it is the group that has failed
    });
    CAPTURE(ends[2].what);
    CHECK(ends[0].culprit == 1);
    CHECK(ends[2].culprit == 1);
    CHECK(says(ends[2].what, "rank 1 has left the group"));
    CHECK_FALSE(says(ends[2].what, "as its backward ended"));
    CHECK(says(ends[2].what, "this rank was in number 1, barrier 'on its own'"));
  }
}

TEST_CASE("what ends a collective on one rank alone is told to the others, with its words") {
  const LogCapture quiet;
  for (const char* transport : kTransports) {
    CAPTURE(transport);
    const auto ends = run_group(transport, 2, [](ProcessGroup& g) {
      g.communicator().all_reduce(zeros({1}));  // connects what there is to connect
      g.barrier();
      Tensor x = zeros({4}), out = g.rank() == 1 ? zeros({8}).slice(0, 0, 8, 2) : Tensor();
      if (g.rank() == 0) return g.communicator().all_reduce(x, {.label = "a sum"});
      try {
        g.communicator().all_reduce(out);
      } catch (const ShapeError& e) {
        g.communicator().abort(e.what());
        throw;
      }
    });
    CHECK(ends[0].culprit == 1);
    CHECK(says(ends[0].what, "rank 1 has ended the group: [all_reduce] a tensor of shape [4] and strides [2]"));
    CHECK(says(ends[0].what, "all_reduce of 4 f32 (sum) 'a sum'"));
  }
}

TEST_CASE("a rank that does not come to a new communicator is named at the deadline") {
  const LogCapture quiet;
  for (const char* transport : {"shm", "sockets"}) {
    CAPTURE(transport);
    const auto ends = run_group(
        transport, 3,
        [](ProcessGroup& g) {
          g.barrier();
          if (g.rank() == 1)
            std::this_thread::sleep_for(2500ms);
          else
            (void)g.new_communicator();
        },
        1000ms);
    for (int r : {0, 2}) {
      CAPTURE(ends[size_t(r)].what);
      CHECK(ends[size_t(r)].culprit == 1);
      CHECK(says(ends[size_t(r)].what, "rank 1 lags behind"));
    }
  }
}

TEST_CASE("when rank 0 has left, and the store with it, the end of another rank is still noticed") {
  const LogCapture quiet;
  for (const char* transport : {"shm", "sockets"}) {
    CAPTURE(transport);
    const auto ends = run_group(transport, 3, [](ProcessGroup& g) {
      auto pair = g.new_group({1, 2});
      g.barrier();
      if (g.rank() == 0) return;
      std::this_thread::sleep_for(1300ms);  // rank 0 keeps the store up for a second
      pair->barrier();
      if (g.rank() == 2) return;
      const auto begin = std::chrono::steady_clock::now();
      try {
        pair->barrier();
      } catch (...) {
        CHECK(std::chrono::steady_clock::now() - begin < 1s);
        throw;
      }
    });
    CHECK(ends[0].what == "");
    CHECK(ends[2].what == "");
    CAPTURE(ends[1].what);
    CHECK(ends[1].culprit == 2);
    CHECK(says(ends[1].what, "rank 2 has ended: its connection to rank 1 broke"));
    CHECK(says(ends[1].what, "rank 0, whose store could tell more, has left"));
  }
}
