#include "tests/golden/op_cases.h"
#include "tests/support/golden.h"

#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

using namespace tandem;
using namespace tandem::golden;

namespace {

// relu under a name of this test's own: the program's adapters are not linked here.
const bool registered = test::add_golden_op("test_relu", [](test::GoldenCall& c) {
  if (c.args.has("fail")) throw Error("as asked");
  return relu(c.in[0]);
});

SafetensorsFile file_with(const std::string& cases) {
  SafetensorsFile f;
  f.tensors = {{"x", tensor({-1.f, 2.f})},
               {"y", tensor({0.f, 2.f})},
               {"gy", tensor({3.f, 5.f})},
               {"gx", tensor({0.f, 5.f})},
               {"bad", tensor({0.f, 9.f})}};
  f.metadata = {{"cases", cases}};
  return f;
}

std::string spec(const std::string& op, const std::string& y, const std::string& gx, const std::string& args = "{}") {
  return message(R"({"op":")", op, R"(","args":)", args, R"(,"inputs":["x"],"outputs":[")", y,
                 R"("],"out_grads":["gy"],"in_grads":[)", gx, "]}");
}

int failures_of(const std::string& cases, Options options = {}) {
  std::ostringstream lines;
  Report report(lines);
  run_op_cases("file", file_with(message("[", cases, "]")), options, report);
  const std::string text = lines.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == report.failures());
  return report.failures();
}

}  // namespace

TEST_CASE("a case that agrees passes in both precisions") {
  REQUIRE(registered);
  CHECK(failures_of(spec("test_relu", "y", "\"gx\"")) == 0);
  CHECK(failures_of(spec("test_relu", "y", "null")) == 0);
}

TEST_CASE("each way in which a case can be wrong is a failure") {
  CHECK(failures_of(spec("test_relu", "bad", "\"gx\"")) == 2);  // in f32 and in f64
  CHECK(failures_of(spec("test_relu", "y", "\"bad\"")) == 2);
  CHECK(failures_of(spec("test_relu", "bad", "\"bad\"")) == 4);
  CHECK(failures_of(spec("test_relu", "bad", "\"gx\""), {.dtypes = {Dtype::f32}}) == 1);
  CHECK(failures_of(spec("unheard_of", "y", "\"gx\"")) == 1);
  CHECK(failures_of(spec("test_relu", "nowhere", "\"gx\"")) == 2);
  CHECK(failures_of(spec("test_relu", "y", "\"gx\"", R"({"fail":true})")) == 2);
  CHECK(failures_of(R"({"op":"test_relu"})") == 2);
}

TEST_CASE("only what the filter names is run") {
  std::string cases = message(spec("test_relu", "bad", "null"), ",", spec("test_relu", "y", "null"));
  CHECK(failures_of(cases) == 2);
  CHECK(failures_of(cases, {.filter = "file 1"}) == 0);
  CHECK(failures_of(cases, {.filter = "nothing"}) == 0);
}

TEST_CASE("the closing count says what was run, what failed, and what was not run") {
  std::ostringstream lines;
  Report report(lines);
  for (int i = 0; i < 3; ++i) report.count(Report::op_case);
  report.count(Report::training_run);
  CHECK(report.summary() == "3 op cases, 1 training run, 0 sequences: all pass");
  report.not_run("grad_scaler");
  CHECK(report.summary() == "3 op cases, 1 training run, 0 sequences: all pass (1 not run: grad_scaler)");
  CHECK_FALSE(report.ran_nothing());
  CHECK(Report(lines).ran_nothing());
}
