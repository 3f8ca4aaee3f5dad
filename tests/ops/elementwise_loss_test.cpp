#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/elementwise_loss.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

Reduction reduction_of(GoldenCall& c) { return parse_reduction(c.args.text("reduction", "mean")); }

using Values = std::vector<double>;
using Loss = std::function<Tensor(const Tensor&, const Tensor&, Reduction)>;

// Every reduction of a loss over a few shapes, against f(x, y) element by element.
void check_loss(const std::string& name, const Loss& loss, double (*f)(double, double), Input x, Input y) {
  for (Reduction r : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const Dims& shape : {Dims{30, 2}, Dims{3, 5, 4, 7}, Dims{1}, Dims{}}) {
      x.shape = y.shape = shape;
      check_op({.name = message(name, " ", r, " ", shape),
                .inputs = {x, y},
                .run = [&](auto& in) { return loss(in[0], in[1], r); },
                .reference =
                    [&](auto& in) {
                      Values v;
                      double sum = 0;
                      for (size_t i = 0; i < in[0].size(); ++i) {
                        v.push_back(f(in[0][i], in[1][i]));
                        sum += v.back();
                      }
                      if (r == Reduction::none) return v;
                      return Values{r == Reduction::mean ? sum / double(v.size()) : sum};
                    },
                // f16 holds no sum of 420 losses to more than this
                .half_tolerance = 4e-2});
    }
}

}  // namespace

TANDEM_GOLDEN("mse_loss", [](GoldenCall& c) { return mse_loss(c.in[0], c.in[1], reduction_of(c)); });
TANDEM_GOLDEN("l1_loss", [](GoldenCall& c) { return l1_loss(c.in[0], c.in[1], reduction_of(c)); });
TANDEM_GOLDEN("smooth_l1_loss", [](GoldenCall& c) {
  return smooth_l1_loss(c.in[0], c.in[1], {.reduction = reduction_of(c), .beta = c.args.number("beta", 1)});
});
TANDEM_GOLDEN("binary_cross_entropy_with_logits",
              [](GoldenCall& c) { return binary_cross_entropy_with_logits(c.in[0], c.in[1], reduction_of(c)); });

TEST_CASE("mse_loss") {
  check_loss(
      "mse_loss", [](auto& x, auto& y, Reduction r) { return mse_loss(x, y, r); },
      [](double x, double y) { return (x - y) * (x - y); }, {.shape = {}}, {.shape = {}});
}

// y lies in [-1, 1], x beyond it, so that no difference comes near the kinks.
TEST_CASE("l1_loss") {
  check_loss(
      "l1_loss", [](auto& x, auto& y, Reduction r) { return l1_loss(x, y, r); },
      [](double x, double y) { return std::abs(x - y); }, {.shape = {}, .low = -3, .high = 3, .gap = 1.1},
      {.shape = {}});
}

TEST_CASE("smooth_l1_loss") {
  auto with = [](double beta) {
    return [beta](const Tensor& x, const Tensor& y, Reduction r) {
      return smooth_l1_loss(x, y, {.reduction = r, .beta = beta});
    };
  };
  auto huber = [](double x, double y) {
    double d = std::abs(x - y);
    return d < 1 ? d * d / 2 : d - 0.5;
  };
  check_loss("smooth_l1_loss in its curve", with(1), huber, {.shape = {}, .low = -0.45, .high = 0.45},
             {.shape = {}, .low = -0.45, .high = 0.45});
  check_loss("smooth_l1_loss on its line", with(1), huber, {.shape = {}, .low = -4, .high = 4, .gap = 2.1},
             {.shape = {}});
  check_loss("smooth_l1_loss of beta 0", with(0), [](double x, double y) { return std::abs(x - y); },
             {.shape = {}, .low = -3, .high = 3, .gap = 1.1}, {.shape = {}});
  check_loss("smooth_l1_loss of beta 3", with(3), [](double x, double y) { return (x - y) * (x - y) / 6; },
             {.shape = {}}, {.shape = {}});
}

TEST_CASE("binary_cross_entropy_with_logits") {
  check_loss(
      "binary_cross_entropy_with_logits",
      [](auto& x, auto& y, Reduction r) { return binary_cross_entropy_with_logits(x, y, r); },
      [](double x, double y) {
        double p = 1 / (1 + std::exp(-x));
        return -y * std::log(p) - (1 - y) * std::log(1 - p);
      },
      {.shape = {}, .low = -4, .high = 4}, {.shape = {}, .low = 0, .high = 1});
}

TEST_CASE("binary_cross_entropy_with_logits is safe for large logits") {
  Tensor x = tensor({1e4f, -1e4f, 100.f}, {.requires_grad = true}), y = tensor({1.f, 1.f, 0.f});
  Tensor loss = binary_cross_entropy_with_logits(x, y, Reduction::none);
  CHECK(loss.to_vector() == std::vector<float>{0, 1e4f, 100});
  loss.backward(ones({3}));
  CHECK(x.grad().to_vector() == std::vector<float>{0, -1, 1});
}

TEST_CASE("gradients where a loss has a kink") {
  Tensor x = tensor({0.f, 1.f, -1.f}, {.requires_grad = true}), y = zeros({3});
  l1_loss(x, y, Reduction::sum).backward();
  CHECK(x.grad().to_vector() == std::vector<float>{0, 1, -1});
  x.zero_grad();
  smooth_l1_loss(x, y, {.reduction = Reduction::sum}).backward();
  CHECK(x.grad().to_vector() == std::vector<float>{0, 1, -1});
}

TEST_CASE("a loss of nothing: the mean is NaN, the sum 0") {
  Tensor x = zeros({0, 3}, {.requires_grad = true}), y = zeros({0, 3});
  CHECK(std::isnan(mse_loss(x, y).item()));
  CHECK(mse_loss(x, y, Reduction::sum).item() == 0);
  CHECK(l1_loss(x, y, Reduction::none).shape() == Dims{0, 3});
  mse_loss(x, y).backward();
  CHECK(x.grad().shape() == Dims{0, 3});
}

TEST_CASE("elementwise losses say what does not fit") {
  CHECK_THROWS_WITH_AS(mse_loss(zeros({2, 3}), zeros({3, 2})),
                       "[mse_loss] takes two tensors of one shape, got [2,3] and [3,2]", ShapeError);
  CHECK_THROWS_AS(l1_loss(zeros({2}), zeros({2}, {.dtype = Dtype::f64})), DtypeError);
  CHECK_THROWS_AS(mse_loss(arange(0, 2), arange(0, 2)), DtypeError);
  CHECK_THROWS_WITH_AS(smooth_l1_loss(zeros({2}), zeros({2}), {.beta = -1}),
                       "[smooth_l1_loss] beta is at least 0, got -1", Error);
}

TEST_CASE("reductions by name") {
  for (Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) CHECK(parse_reduction(to_string(r)) == r);
  CHECK_THROWS_WITH_AS(parse_reduction("avg"), "a reduction is mean, sum or none, got \"avg\"", Error);
}
