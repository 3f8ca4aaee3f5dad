// send and recv, whatever carries them: what the two sides must agree on, and when one of them may leave.
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/text.h"

#include <tandem/core/copy.h>

#include <doctest/doctest.h>

#include <thread>

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kSizes[] = {0, 5, 300'000};

}  // namespace

TEST_CASE("two ranks that wait for one another's other half are told so at once, both of them") {
  const LogCapture quiet;
  struct Case {
    const char* name;
    std::function<void(Communicator&, Tensor)> first, second;
    const char *first_asks, *second_asks;
  };
  auto send = [](Communicator& c, Tensor t) { c.send(t, 1 - c.rank()); };
  auto recv = [](Communicator& c, Tensor t) { c.recv(t, 1 - c.rank()); };
  auto reduce = [](Communicator& c, Tensor t) { c.all_reduce(t); };
  const Case cases[] = {
      {"send, send", send, send, "send of ", "send of "},
      {"recv, recv", recv, recv, "recv of ", "recv of "},
      {"send, all_reduce", send, reduce, "send of ", "all_reduce of "},
      {"recv, all_reduce", recv, reduce, "recv of ", "all_reduce of "},
      {"other sizes", send, [](Communicator& c, Tensor) { c.recv(zeros({7}), 0); }, "send of ", "recv of 7 f32"}};
  for (const char* transport : kTransports)
    for (const Case& c : cases)
      for (int64_t n : kSizes) {
        CAPTURE(transport);
        CAPTURE(c.name);
        CAPTURE(n);
        const auto ends = run_group(transport, 2, [&](ProcessGroup& g) {
          g.communicator().all_reduce(zeros({1}));  // connects what there is to connect
          g.barrier();
          (g.rank() == 0 ? c.first : c.second)(g.communicator(), zeros({n}));
        });
        for (auto& e : ends) {
          CAPTURE(e.what);
          CHECK(says(e.what, message("rank 0 for number ")));
          CHECK(says(e.what, message(c.first_asks, n, " f32 (", c.first_asks[0] == 's' ? "to" : "from", " 1)")));
          CHECK(says(e.what, message("rank 1 for number ")));
          CHECK(says(e.what, c.second_asks));
          CHECK(e.after < 5s);
        }
      }
}

TEST_CASE("a rank may leave when it has done its part of every send and recv") {
  const LogCapture quiet;
  for (const char* transport : kTransports)
    for (int64_t n : kSizes) {
      CAPTURE(transport);
      CAPTURE(n);
      for (int round = 0; round < 10; ++round) {
        const auto ends = run_group(transport, 3, [&](ProcessGroup& g) {
          Communicator& c = g.communicator();
          g.barrier();
          Tensor x = full({n}, 3), y = zeros({n});
          if (g.rank() == 1) {  // receives, sends, and goes, while the other may not have heard that it is done
            c.recv(y, 0);
            c.send(y, 0);
            c.recv(y, 0);
          } else if (g.rank() == 0) {
            c.send(x, 1);
            c.recv(y, 1);
            c.send(x, 1);
            CHECK(y.to_vector() == x.to_vector());
            std::this_thread::sleep_for(round % 2 ? 5ms : 0ms);
            c.send(x, 2);  // of which the one that has left has no part
          } else {
            c.recv(y, 0);
          }
        });
        for (auto& e : ends) CHECK(e.what == "");
      }
    }
}

TEST_CASE("a rank that leaves before its part of a send or recv is named, with what is missing") {
  const LogCapture quiet;
  for (const char* transport : kTransports)
    for (bool sends : {true, false}) {
      CAPTURE(transport);
      CAPTURE(sends);
      const auto ends = run_group(transport, 3, [&](ProcessGroup& g) {
        Communicator& c = g.communicator();
        g.barrier();
        Tensor x = zeros({10});
        if (g.rank() == 1) {
          c.recv(x, 0);
          c.send(x, 0);
        } else if (g.rank() == 0) {
          c.send(x, 1);
          c.recv(x, 1);
          sends ? c.send(x, 1) : c.recv(x, 1);
        }
      });
      CAPTURE(ends[0].what);
      CHECK(ends[0].culprit == 1);
      CHECK(says(ends[0].what, sends ? "rank 1 has left the group; it had no part in number 2 of what rank 0 sends it"
                                     : "it had no part in number 2 of what rank 0 receives from it"));
      CHECK(ends[0].after < 5s);
      CHECK(ends[2].what == "");
    }
}
