#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/softmax.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("softmax", [](GoldenCall& c) { return softmax(c.in[0], int(c.args.integer("dim", -1))); });
TANDEM_GOLDEN("log_softmax", [](GoldenCall& c) { return log_softmax(c.in[0], int(c.args.integer("dim", -1))); });

namespace {

using Values = std::vector<double>;

// exp(x) / sum(exp(x)), or its logarithm, by the definition.
Values plain_softmax(const Dims& shape, int dim, Values x, bool log) {
  int64_t inner = 1, n = 1;
  if (shape.size()) {
    n = shape[dim];
    for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  Values y(x.size());
  for (int64_t start = 0; start < int64_t(x.size()); ++start) {
    if (start / inner % n) continue;  // not the first along dim
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[size_t(start + i * inner)]);
    for (int64_t i = 0; i < n; ++i) {
      const auto at = size_t(start + i * inner);
      y[at] = log ? std::log(std::exp(x[at]) / sum) : std::exp(x[at]) / sum;
    }
  }
  return y;
}

void check_softmax(const std::string& name, Tensor (*op)(const Tensor&, int), bool log) {
  struct {
    Dims shape;
    int dims;
  } cases[] = {{{}, 1},        {{5}, 1},          {{3, 20}, 2},      {{20, 70}, 2},
               {{2, 3, 4}, 3}, {{3, 5, 4, 7}, 4}, {{2, 1, 3, 3}, 4}, {{2, 2500}, 2}};
  for (auto& c : cases)
    for (int dim = 0; dim < c.dims; ++dim)
      check_op({.name = message(name, " of ", c.shape, " along ", dim),
                .inputs = {{.shape = c.shape, .low = -3, .high = 3}},
                .run = [&](auto& in) { return op(in[0], dim); },
                .reference = [&](auto& in) { return plain_softmax(c.shape, dim, in[0], log); },
                .half_tolerance = 3e-2});
}

}  // namespace

TEST_CASE("softmax") { check_softmax("softmax", softmax, false); }
TEST_CASE("log_softmax") { check_softmax("log_softmax", log_softmax, true); }

TEST_CASE("softmax is safe for large values, and keeps NaN to its row") {
  Tensor x = from_vector<float>({1e4f, 0, -1e4f, -INFINITY, 0, 0, NAN, 1, 2}, {3, 3});
  auto y = softmax(x, -1).to_vector(), l = log_softmax(x, -1).to_vector();
  CHECK(std::vector<float>(y.begin(), y.begin() + 6) == std::vector<float>{1, 0, 0, 0, 0.5f, 0.5f});
  CHECK(std::vector<float>(l.begin(), l.begin() + 4) == std::vector<float>{0, -1e4f, -2e4f, -INFINITY});
  for (int i = 6; i < 9; ++i) {
    CHECK(std::isnan(y[size_t(i)]));
    CHECK(std::isnan(l[size_t(i)]));
  }
}

TEST_CASE("softmax of nothing") {
  Tensor x = zeros({0, 3}, {.requires_grad = true});
  Tensor y = softmax(x, 1);
  CHECK(y.shape() == Dims{0, 3});
  y.backward(y.detach());
  CHECK(x.grad().shape() == Dims{0, 3});
  CHECK(log_softmax(zeros({3, 0}), 1).shape() == Dims{3, 0});
  for (int dim = 0; dim < 3; ++dim) CHECK(softmax(zeros({2, 3, 0}), dim).shape() == Dims{2, 3, 0});
}

TEST_CASE("softmax keeps the layout, and says what does not fit") {
  Tensor x = random_tensor({2, 3, 4, 5}, {.layout = Layout::channels_last});
  CHECK(softmax(x, 1).layout() == Layout::channels_last);
  CHECK_THROWS_AS(softmax(x, 4), ShapeError);
  CHECK_THROWS_AS(log_softmax(arange(0, 3), 0), DtypeError);
}
