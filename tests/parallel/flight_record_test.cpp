// The flight record: what a rank's log and file say when a collective fails.
#include "tests/support/environment.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/parallel/flight_record.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

#include <cstdlib>

using namespace tandem;
using namespace tandem::test;

namespace {

// Some collectives in two communicators, then one that rank 1 does not come to.
void fail() {
  CHECK_THROWS_AS(run_replicas(2,
                               [](int rank) {
                                 auto& world = current_process_group().communicator();
                                 auto second = current_process_group().new_communicator();
                                 for (int i = 0; i < 70; ++i)
                                   world.all_reduce(ones({3}), {.label = message("sum ", i)});
                                 second->broadcast(ones({4}, {.dtype = Dtype::f64}), 1);
                                 if (rank == 1) throw std::runtime_error("out of luck");
                                 try {
                                   world.all_reduce_async(ones({5}), {.label = "the last"}).wait();
                                   FAIL("rank 1 was not there");
                                 } catch (const CommError& e) {
                                   CHECK(says(e.what(), "out of luck"));
                                 }
                                 // Said once, not with every collective from then on.
                                 CHECK_THROWS_AS(second->barrier(), CommError);
                               }),
                  std::runtime_error);
}

}  // namespace

TEST_CASE("a failure is logged with the last collectives, once for each rank that meets it" * cpu_only()) {
  LogCapture captured;
  fail();
  const std::string line = captured.find("rank 0:");
  CAPTURE(line);
  CHECK(says(line, "out of luck"));
  CHECK(says(line, "(last collectives in world: number 67 all_reduce 'sum 66' done; "));
  CHECK(says(line, "; number 71 all_reduce 'the last' failed)"));
  CHECK(captured.lines() == 1);
}

TEST_CASE("the file that the environment names has the last 64 of each communicator" * cpu_only()) {
  TemporaryFolder folder;
  Variable record("TANDEM_FLIGHT_RECORD", folder / "flight");
  LogCapture captured;
  fail();
  const std::string text = read_text(folder / "flight.rank0");
  CAPTURE(text);
  CHECK(text.rfind("rank 0 at 2", 0) == 0);
  CHECK(says(text, "out of luck"));
  const size_t world = text.find("\nworld\n");
  REQUIRE(world != text.npos);
  CHECK(says(text, "\nworld/1\n  number 1, broadcast of 4 f64 (root 1): done, started "));
  CHECK(says(text, "  number 71, all_reduce of 5 f32 (sum) 'the last': failed, started "));
  CHECK(count(text.substr(world), "all_reduce") == FlightRecord::kKept);
  CHECK_FALSE(says(text, "'sum 6'"));
  CHECK(says(text, "'sum 7'"));
  CHECK(read_text(folder / "flight.rank1").empty());  // it threw something else, by itself
  fail();
  CHECK(count(read_text(folder / "flight.rank0"), "rank 0 at ") == 2);
}

TEST_CASE("a file that can't be written is a warning") {
  TemporaryFolder folder;
  Variable record("TANDEM_FLIGHT_RECORD", folder / "missing" + "/flight");
  LogCapture captured;
  fail();
  CHECK(says(captured.find("[flight record]"), "can't be written"));
}

TEST_CASE("a record: a collective under way, and none at all") {
  FlightRecord record;
  CHECK(record.entries().empty());
  CHECK(short_text(record, 5).empty());
  record.begin(Header{.sequence = 1}, "first");
  record.end(true);
  record.begin(Header{.sequence = 2}, "");
  REQUIRE(record.entries().size() == 2);
  CHECK(record.entries()[1].state == FlightRecord::Entry::State::running);
  CHECK(short_text(record, 1) == "number 2 all_reduce running");
  const std::string text = long_text(record, FlightRecord::Clock::now());
  CHECK(count(text, "\n") == 2);
  CHECK(count(text, "took") == 1);
}
