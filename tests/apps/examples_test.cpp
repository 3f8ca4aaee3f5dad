#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem::test;

TEST_CASE("own_dataset: three batches of 30") {
  Finished r = run_program("own_dataset", {});
  REQUIRE(r.code == 0);
  const std::string inside = "  In Model: input size [30,5] output size [30,2]\n",
                    outside = "Outside: input size [30,5] output_size [30,2]\n";
  CHECK(r.output == inside + outside + inside + outside + inside + outside);
}

TEST_CASE("own_training: the saved network has learnt the curve") {
  TemporaryFolder tmp;
  Finished r = run_program("own_training", {tmp / "curve.safetensors"});
  INFO(r.output);
  REQUIRE(r.code == 0);
  const std::string says = "the network says ";
  auto at = r.output.find(says);
  REQUIRE(at != std::string::npos);
  CHECK(std::abs(std::stod(r.output.substr(at + says.size())) - std::sin(1.0)) < 0.05);
}
