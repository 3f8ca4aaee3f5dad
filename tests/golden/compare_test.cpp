#include "tests/golden/compare.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::golden;

namespace {
std::string differ(std::vector<double> got, std::vector<double> want, Tolerance t) { return difference(got, want, t); }
}  // namespace

TEST_CASE("values agree within any of the three tolerances, and no further") {
  CHECK(differ({1.0}, {1.0}, {}).empty());
  CHECK_FALSE(differ({1.0}, {1.0 + 1e-15}, {}).empty());
  CHECK(differ({1.01}, {1.0}, {.absolute = 0.011}).empty());
  CHECK_FALSE(differ({1.01}, {1.0}, {.absolute = 0.009}).empty());
  CHECK(differ({101.0}, {100.0}, {.relative = 0.011}).empty());
  CHECK_FALSE(differ({101.0}, {100.0}, {.relative = 0.009}).empty());
  CHECK(differ({100.0, 0.5}, {100.0, 0.0}, {.of_largest = 0.006}).empty());
  CHECK_FALSE(differ({100.0, 0.5}, {100.0, 0.0}, {.of_largest = 0.004}).empty());
  CHECK(differ({}, {}, {}).empty());
}

TEST_CASE("what is not finite agrees with its like alone") {
  const Tolerance wide{.absolute = 1e9, .relative = 1, .of_largest = 1};
  CHECK(differ({NAN, INFINITY, -INFINITY}, {NAN, INFINITY, -INFINITY}, {}).empty());
  CHECK_FALSE(differ({NAN}, {0.0}, wide).empty());
  CHECK_FALSE(differ({0.0}, {NAN}, wide).empty());
  CHECK_FALSE(differ({INFINITY}, {1.0}, wide).empty());
  CHECK_FALSE(differ({1.0}, {INFINITY}, wide).empty());
  CHECK_FALSE(differ({INFINITY}, {-INFINITY}, wide).empty());
}

TEST_CASE("the worst difference is named") {
  CHECK(differ({1, 2, 3, 4}, {1, 2.5, 1, 4}, {.absolute = 0.1}) ==
        "2 of 4 values differ, worst at element 2: 3, not 1 (difference 2)");
}

TEST_CASE("shapes, kinds and integers are exact") {
  const Tolerance wide{.absolute = 1e9};
  CHECK(difference(zeros({2, 3}), zeros({3, 2}), wide) == "shape [2,3], not [3,2]");
  CHECK(difference(zeros({2}), zeros({2}, {.dtype = Dtype::i64}), wide) == "is f32, not i64");
  CHECK(difference(tensor({1, 2}), tensor({1, 3}), wide) == "element 1 is 2, not 3");
  CHECK(difference(zeros({2}), zeros({2}, {.dtype = Dtype::f64}), {}).empty());
}
