#include "tests/support/golden.h"
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/core/kernel.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/reduce.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("sum", [](GoldenCall& c) { return sum(c.in[0], c.args.dims("dim"), c.args.flag("keepdim", false)); });
TANDEM_GOLDEN("mean", [](GoldenCall& c) { return mean(c.in[0], c.args.dims("dim"), c.args.flag("keepdim", false)); });
TANDEM_GOLDEN("amax", [](GoldenCall& c) { return amax(c.in[0], c.args.dims("dim"), c.args.flag("keepdim", false)); });
TANDEM_GOLDEN("amin", [](GoldenCall& c) { return amin(c.in[0], c.args.dims("dim"), c.args.flag("keepdim", false)); });
TANDEM_GOLDEN("var", [](GoldenCall& c) {
  return var(c.in[0], c.args.dims("dim"),
             {.unbiased = c.args.flag("unbiased", true), .keepdim = c.args.flag("keepdim", false)});
});
namespace {
std::optional<int> dim_of(GoldenCall& c) {
  return c.args.has("dim") ? std::optional<int>(int(c.args.integer("dim", 0))) : std::nullopt;
}
}  // namespace
TANDEM_GOLDEN("argmax", [](GoldenCall& c) { return argmax(c.in[0], dim_of(c), c.args.flag("keepdim", false)); });
TANDEM_GOLDEN("argmin", [](GoldenCall& c) { return argmin(c.in[0], dim_of(c), c.args.flag("keepdim", false)); });

namespace {

using Values = std::vector<double>;
using Reduce = std::function<Tensor(const Tensor&, const Dims&)>;
using Plain = std::function<double(const Values&)>;

// f over the elements of each result, gathered one by one in row-major order.
Values plain_reduction(const Dims& shape, const Dims& dim, const Values& x, const Plain& f) {
  const int dims = std::max(1, shape.size());  // a scalar counts as one dimension
  std::vector<bool> reduced(size_t(dims), dim.empty());
  for (int64_t d : dim) reduced[size_t(d < 0 ? d + dims : d)] = true;
  int64_t results = 1;
  for (int d = 0; d < shape.size(); ++d)
    if (!reduced[size_t(d)]) results *= shape[d];
  std::vector<Values> of(static_cast<size_t>(results));
  for (int64_t i = 0; i < int64_t(x.size()); ++i) {
    int64_t rest = i, j = 0, scale = 1;
    for (int d = shape.size(); d--;) {
      if (!reduced[size_t(d)]) {
        j += rest % shape[d] * scale;
        scale *= shape[d];
      }
      rest /= shape[d];
    }
    of[size_t(j)].push_back(x[size_t(i)]);
  }
  Values y;
  for (auto& v : of) y.push_back(f(v));
  return y;
}

void check_reduction(const std::string& name, const Reduce& reduce, const Plain& plain) {
  struct {
    Dims shape;
    std::vector<Dims> dims;
  } cases[] = {
      {{}, {{}, {0}, {-1}}},
      {{6}, {{}, {0}}},
      {{3, 4}, {{}, {0}, {1}, {0, 1}}},
      {{3, 40}, {{0}, {-1}}},  // more columns than are taken at once
      {{2, 3, 4}, {{0}, {1}, {2}, {0, 2}}},
      {{3, 5, 4, 7}, {{}, {0}, {1}, {2}, {3}, {0, 2, 3}, {2, 3}, {1, 2}, {0, 1}, {0, 2}, {0, 3}, {-4, 2, -1}}},
      {{2, 1, 3, 1}, {{1}, {0, 3}, {1, 2}}},
      {{2, 3, 2, 2, 3}, {{1, 3}, {0, 4}, {2}}},
  };
  for (auto& c : cases)
    for (auto& dim : c.dims)
      check_op({.name = message(name, " of ", c.shape, " over ", dim),
                .inputs = {{.shape = c.shape}},
                .run = [&](auto& in) { return reduce(in[0], dim); },
                .reference = [&](auto& in) { return plain_reduction(c.shape, dim, in[0], plain); },
                .half_tolerance = 4e-2});
}

double plain_sum(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}
double plain_var(const Values& v, double correction) {
  const double mean = plain_sum(v) / double(v.size());
  double s = 0;
  for (double x : v) s += (x - mean) * (x - mean);
  return s / std::max(0.0, double(v.size()) - correction);
}

}  // namespace

TEST_CASE("sum") {
  check_reduction(
      "sum", [](auto& x, auto& dim) { return sum(x, dim); }, plain_sum);
}
TEST_CASE("mean") {
  check_reduction(
      "mean", [](auto& x, auto& dim) { return mean(x, dim); },
      [](const Values& v) { return plain_sum(v) / double(v.size()); });
}
TEST_CASE("amax") {
  check_reduction(
      "amax", [](auto& x, auto& dim) { return amax(x, dim); },
      [](const Values& v) { return *std::max_element(v.begin(), v.end()); });
}
TEST_CASE("amin") {
  check_reduction(
      "amin", [](auto& x, auto& dim) { return amin(x, dim); },
      [](const Values& v) { return *std::min_element(v.begin(), v.end()); });
}
TEST_CASE("argmax") {
  auto index = [](const Values& v) { return double(std::max_element(v.begin(), v.end()) - v.begin()); };
  for (std::optional<int> dim : {std::optional<int>(), std::optional(0), std::optional(1), std::optional(-1)})
    check_op({.name = message("argmax of ", dim ? *dim : -100),
              .inputs = {{.shape = {3, 5, 4, 7}, .low = -20, .high = 20, .dtype = Dtype::i32}},
              .run = [&](auto& in) { return argmax(in[0], dim); },
              .reference =
                  [&](auto& in) {
                    return plain_reduction({3, 5, 4, 7}, dim ? Dims{*dim} : Dims{}, in[0], index);
                  }});
}
TEST_CASE("argmin") {
  auto index = [](const Values& v) { return double(std::min_element(v.begin(), v.end()) - v.begin()); };
  for (int dim : {0, 1, 2, 3})
    check_op({.name = message("argmin of ", dim),
              .inputs = {{.shape = {3, 5, 4, 7}, .grad = false}},
              .run = [&](auto& in) { return argmin(in[0], dim); },
              .reference =
                  [&](auto& in) {
                    return plain_reduction({3, 5, 4, 7}, {dim}, in[0], index);
                  },
              .half = false});  // rounding makes ties
}
TEST_CASE("var") {
  for (bool unbiased : {true, false}) {
    check_op({.name = "var of everything",
              .inputs = {{.shape = {3, 5, 4, 7}}},
              .run = [&](auto& in) { return var(in[0], VarOptions{.unbiased = unbiased}); },
              .reference = [&](auto& in) { return Values{plain_var(in[0], unbiased)}; }});
    for (const Dims& dim : {Dims{0}, Dims{1}, Dims{-1}, Dims{0, 2, 3}, Dims{1, 2}, Dims{0, 3}})
      check_op({.name = message("var over ", dim, unbiased ? ", unbiased" : ""),
                .inputs = {{.shape = {3, 5, 4, 7}, .low = 1, .high = 3}},
                .run = [&](auto& in) { return var(in[0], dim, {.unbiased = unbiased}); },
                .reference =
                    [&](auto& in) {
                      return plain_reduction({3, 5, 4, 7}, dim, in[0],
                                             [&](const Values& v) { return plain_var(v, unbiased); });
                    },
                .half_tolerance = 5e-2});
  }
}

TEST_CASE("large reductions: many parts, few results and many") {
  for (Dims shape : {Dims{70000}, Dims{3, 30000}, Dims{30000, 3}, Dims{9000, 40}}) {
    Tensor x = random_tensor(shape, {.dtype = Dtype::f32});
    auto values = x.to_vector<double>();
    for (const Dims& dim : {Dims{}, Dims{0}, Dims{-1}}) {
      auto want = plain_reduction(shape, dim, values, plain_sum);
      set_num_threads(2);
      Tensor y = sum(x, dim), most = amax(x, dim);
      set_num_threads(1);
      CHECK(same_bits(y, sum(x, dim)));
      auto got = y.to_vector<double>();
      double worst = 0;
      for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
      CHECK(worst < 1e-4);
      auto highest =
          plain_reduction(shape, dim, values, [](const Values& v) { return *std::max_element(v.begin(), v.end()); });
      CHECK(most.to_vector<double>() == highest);
    }
  }
}

TEST_CASE("the layouts of a large tensor sum to the same bits" * cpu_only()) {
  Tensor x = random_tensor({8, 20, 30, 30}, {.dtype = Dtype::f32});
  Tensor last = random_tensor({8, 20, 30, 30}, {.dtype = Dtype::f32, .layout = Layout::channels_last});
  auto values = x.to_vector();
  last = from_vector(values, x.shape(), {.layout = Layout::channels_last});
  for (const Dims& dim : {Dims{}, Dims{0, 2, 3}, Dims{2, 3}, Dims{1}}) {
    CHECK(same_bits(sum(x, dim), sum(last, dim)));
    CHECK(same_bits(var(x, dim), var(last, dim)));
  }
}

TEST_CASE("integers and bools sum to i64, and have extrema") {
  CHECK(sum(full({1000}, 200, {.dtype = Dtype::u8})).item<int64_t>() == 200000);
  CHECK(sum(full({3}, double(1 << 30), {.dtype = Dtype::i32})).item<int64_t>() == int64_t(3) << 30);
  Tensor b = tensor({true, false, true});
  CHECK(sum(b).dtype() == Dtype::i64);
  CHECK(sum(b).item<int64_t>() == 2);
  CHECK(amax(b).dtype() == Dtype::boolean);
  CHECK(amax(b).item<bool>());
  CHECK(!amin(b).item<bool>());
  CHECK(amax(tensor<int64_t>({-5, -3})).item<int64_t>() == -3);
  CHECK(argmax(tensor<uint8_t>({3, 200, 7})).item<int64_t>() == 1);
  CHECK_THROWS_AS(mean(b), DtypeError);
  CHECK_THROWS_AS(var(arange(0, 3)), DtypeError);
}

TEST_CASE("equal extrema share the gradient, and the first has the index") {
  Tensor x = from_vector<float>({2, 5, 5, 1, 5, 0}, {2, 3}, {.requires_grad = true});
  amax(x).backward();
  CHECK(x.grad().to_vector<double>() == Values{0, 1.f / 3, 1.f / 3, 0, 1.f / 3, 0});
  CHECK(argmax(x).item<int64_t>() == 1);
  CHECK(argmax(x, 0).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0});
  CHECK(argmin(tensor({3.f, 1.f, 1.f}), 0).item<int64_t>() == 1);
  CHECK(argmax(x, 1, true).shape() == Dims{2, 1});
}

TEST_CASE("NaN wins") {
  Tensor x = from_vector<float>({1, NAN, 3, NAN, 2, 0}, {2, 3});
  CHECK(std::isnan(amax(x).item()));
  CHECK(std::isnan(amin(x).item()));
  CHECK(argmax(x).item<int64_t>() == 1);
  CHECK(argmin(x, 0).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
  CHECK(amax(x, 0).to_vector()[2] == 3);
  CHECK(std::isnan(sum(x).item()));
}

TEST_CASE("reductions of nothing") {
  Tensor x = zeros({0, 3}, {.requires_grad = true});
  CHECK(sum(x).item() == 0);
  CHECK(sum(x, 0).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(sum(x, 1).shape() == Dims{0});
  CHECK(std::isnan(mean(x).item()));
  CHECK(std::isnan(var(x).item()));
  CHECK(std::isnan(var(ones({1})).item()));  // unbiased: nothing to divide by
  CHECK(var(ones({1}), VarOptions{.unbiased = false}).item() == 0);
  CHECK(amax(x, 1).shape() == Dims{0});
  CHECK(argmax(x, 1).shape() == Dims{0});
  CHECK_THROWS_WITH_AS(amax(x, 0), "[amax] there is nothing to choose from in dimension 0 of [0,3]", ShapeError);
  CHECK_THROWS_AS(argmin(x), ShapeError);
  for (Tensor y : {sum(x), mean(x), var(x)}) {
    x.zero_grad();
    y.backward();
    CHECK(x.grad().shape() == Dims{0, 3});
  }
}

TEST_CASE("keepdim, dimensions as numbers, members") {
  Tensor x = random_tensor({2, 3, 4});
  CHECK(sum(x, {0, 2}, true).shape() == Dims{1, 3, 1});
  CHECK(mean(x, -1, true).shape() == Dims{2, 3, 1});
  CHECK(var(x, 1, {.keepdim = true}).shape() == Dims{2, 1, 4});
  CHECK(same_bits(amax(x, 1), amax(x, Dims{1})));
  CHECK(same_bits(amin(x, -1), amin(x, {2})));
  CHECK(same_bits(x.sum(), sum(x)));
  CHECK(same_bits(x.mean(), mean(x)));
  CHECK(same_bits(var(x), var(x, {0, 1, 2})));
  CHECK_THROWS_AS(sum(x, 3), ShapeError);
  CHECK_THROWS_WITH_AS(sum(x, {0, -3}), "[sum] dimension -3 is named twice in [0,-3]", ShapeError);
}
