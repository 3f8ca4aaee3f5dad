#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/pad.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("pad", [](GoldenCall& c) { return pad(c.in[0], c.args.dims("pad"), c.args.number("value", 0)); });

namespace {

// The definition: each element of the result from its place in x, or `value` where that is outside.
std::vector<double> padded(const std::vector<double>& x, const Dims& shape, const Dims& pads, double value) {
  Dims to = shape, before = shape;
  for (int d = 0; d < shape.size(); ++d) {
    int k = 2 * (shape.size() - 1 - d);
    before[d] = k < pads.size() ? pads[k] : 0;
    to[d] += before[d] + (k < pads.size() ? pads[k + 1] : 0);
  }
  std::vector<double> y;
  for (int64_t flat = 0; flat < to.numel(); ++flat) {
    int64_t rest = flat, at = 0, stride = 1;
    bool inside = true;
    for (int d = to.size(); d--;) {
      int64_t k = rest % to[d] - before[d];
      rest /= to[d];
      inside = inside && k >= 0 && k < shape[d];
      at += k * stride;
      stride *= shape[d];
    }
    y.push_back(inside ? x[size_t(at)] : value);
  }
  return y;
}

}  // namespace

TEST_CASE("pad") {
  struct Case {
    Dims shape, pads;
    double value;
  };
  const Case cases[] = {{{1, 2, 3, 4}, {1, 2, 3, 0}, 0.5},
                        {{2, 3, 4, 5}, {0, 0, 2, 1, 1, 1}, -1},
                        {{2, 3, 4, 5}, {-1, 2}, 0.25},
                        {{2, 3, 4, 5}, {-2, -1, 1, -2}, 3},
                        {{4}, {3, -2}, 0},
                        {{3, 4}, {}, 1},
                        {{2, 0}, {1, 1}, 7},
                        {{3, 4}, {-2, -2}, 0},
                        {{2, 3}, {-4, 5}, 2}};  // the last crops all that there is
  for (auto& c : cases)
    check_op({.name = message("pad of ", c.shape, " by ", c.pads),
              .inputs = {{.shape = c.shape}},
              .run = [&](auto& in) { return pad(in[0], c.pads, c.value); },
              .reference = [&](auto& in) { return padded(in[0], c.shape, c.pads, c.value); }});
}

TEST_CASE("pad keeps dtype and layout") {
  CHECK(pad(tensor({int64_t(1), int64_t(2)}), {1, 0}, 9).to_vector<int64_t>() == std::vector<int64_t>{9, 1, 2});
  CHECK(pad(tensor({true}), {0, 1}, 1).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(pad(zeros({2, 3, 4, 4}, {.layout = Layout::channels_last}), {1, 1, 1, 1}).layout() == Layout::channels_last);
  CHECK(pad(zeros({}), {}).dim() == 0);
}

TEST_CASE("pad names what does not fit") {
  CHECK_THROWS_WITH_AS(pad(zeros({2, 3}), {1}),
                       "[pad] [1] is not two numbers for each of the last dimensions of a tensor of 2", ShapeError);
  CHECK_THROWS_AS(pad(zeros({2}), {1, 1, 1, 1}), ShapeError);
  CHECK_THROWS_WITH_AS(pad(zeros({2, 3}), {-3, -1}), "[pad] dimension 1 of size 3 can't be padded by -3 and -1",
                       ShapeError);
}
