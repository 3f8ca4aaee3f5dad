// The flight record: what a rank's log and file say when a collective fails.
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"

#include <tandem/parallel/flight_record.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

#include <cstdlib>

using namespace tandem;
using namespace tandem::test;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

struct Environment {
  explicit Environment(const std::string& path) { setenv("TANDEM_FLIGHT_RECORD", path.c_str(), 1); }
  ~Environment() { unsetenv("TANDEM_FLIGHT_RECORD"); }
};

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
                                   CHECK(has(e.what(), "out of luck"));
                                 }
                                 // Said once, not with every collective from then on.
                                 CHECK_THROWS_AS(second->barrier(), CommError);
                               }),
                  std::runtime_error);
}

}  // namespace

TEST_CASE("a failure is logged with the last collectives, once for each rank that meets it") {
  LogCapture captured;
  fail();
  const std::string line = captured.find("rank 0:");
  CAPTURE(line);
  CHECK(has(line, "out of luck"));
  CHECK(has(line, "(last collectives in world: number 67 all_reduce 'sum 66' done; "));
  CHECK(has(line, "; number 71 all_reduce 'the last' failed)"));
  CHECK(captured.lines() == 1);
}

TEST_CASE("the file that the environment names has the last 64 of each communicator") {
  TemporaryFolder folder;
  Environment environment(folder / "flight");
  LogCapture captured;
  fail();
  const std::string text = read_text(folder / "flight.rank0");
  CAPTURE(text);
  CHECK(text.rfind("rank 0 at 2", 0) == 0);
  CHECK(has(text, "out of luck"));
  const size_t world = text.find("\nworld\n");
  REQUIRE(world != text.npos);
  CHECK(has(text, "\nworld/1\n  number 1, broadcast of 4 f64 (root 1): done, started "));
  CHECK(has(text, "  number 71, all_reduce of 5 f32 (sum) 'the last': failed, started "));
  CHECK(count(text.substr(world), "all_reduce") == FlightRecord::kKept);
  CHECK_FALSE(has(text, "'sum 6'"));
  CHECK(has(text, "'sum 7'"));
  CHECK(read_text(folder / "flight.rank1").empty());  // it threw something else, by itself
  fail();
  CHECK(count(read_text(folder / "flight.rank0"), "rank 0 at ") == 2);
}

TEST_CASE("a file that can't be written is a warning") {
  TemporaryFolder folder;
  Environment environment(folder / "missing" + "/flight");
  LogCapture captured;
  fail();
  CHECK(has(captured.find("[flight record]"), "can't be written"));
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
