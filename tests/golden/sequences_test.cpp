#include "tests/golden/sequences.h"
#include "tests/support/temporary_folder.h"

#include <nlohmann/json.hpp>

#include <doctest/doctest.h>

#include <sstream>

using namespace tandem;
using namespace tandem::golden;
using nlohmann::json;

namespace {

struct Result {
  int failures;
  std::string summary;
};
Result run(const json& sequences, Options options = {}) {
  test::TemporaryFolder folder;
  test::write_text(folder / "sequences.json", sequences.dump());
  std::ostringstream lines;
  Report report(lines);
  run_sequences(folder / "sequences.json", options, report);
  return {report.failures(), report.summary()};
}

const json& good() {
  static const json j = json::parse(test::read_text(TANDEM_SOURCE_DIR "/tests/golden/data/sequences.json"));
  return j;
}

}  // namespace

TEST_CASE("sequences that agree pass, a later feature is listed as not run") {
  Result r = run(good());
  CHECK(r.failures == 0);
  CHECK(r.summary == "0 op cases, 0 training runs, 4 sequences: all pass (1 not run: grad_scaler)");
  CHECK(run(good(), {.filter = "randperm"}).summary == "0 op cases, 0 training runs, 1 sequence: all pass");
}

TEST_CASE("each entry that differs is a failure of its own") {
  json j = good();
  j["randperm"][2]["perm"][0] = 9;
  CHECK(run(j).failures == 1);
  j["randperm"][3]["perm"].erase(0);
  CHECK(run(j).failures == 2);
  j["distributed_sampler"][0]["ranks"][1][2] = 0;
  CHECK(run(j).failures == 3);
  j["distributed_sampler"][1]["ranks"][3].erase(2);
  CHECK(run(j).failures == 4);
  j["distributed_sampler"][2]["ranks"][0].push_back(0);
  CHECK(run(j).failures == 5);
  j["lr"][3]["lrs"][7] = 0.02;
  CHECK(run(j).failures == 6);
  j["lr"][5]["momenta"][7] = 0.9;
  CHECK(run(j).failures == 7);
  j["init"][0]["linear_5_2"]["bias"][0] = 0.5;
  CHECK(run(j).failures == 8);
  j["init"][1]["conv2d_3_4_3"]["weight"].erase(0);
  CHECK(run(j).failures == 9);
}

TEST_CASE("what the program does not know is a failure") {
  json j = good();
  j["unheard"] = json::array();
  CHECK(run(j).failures == 1);
  j["lr"][0]["type"] = "UnheardLR";
  CHECK(run(j).failures == 2);
  j["lr"][1]["args"]["unheard"] = 1;
  CHECK(run(j).failures == 3);
  j["init"][0]["unheard_1_2"] = json::object();
  CHECK(run(j).failures == 4);
  j["randperm"][0] = 1;
  CHECK(run(j).failures == 5);
}
