#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/cross_entropy.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("cross_entropy", [](GoldenCall& c) {
  return cross_entropy(c.in[0], c.in[1],
                       {.weight = c.in.size() > 2 ? c.in[2] : Tensor(),
                        .reduction = parse_reduction(c.args.text("reduction", "mean")),
                        .label_smoothing = c.args.number("label_smoothing", 0),
                        .ignore_index = c.args.integer("ignore_index", -100)});
});

namespace {

using Values = std::vector<double>;

struct Case {
  Dims shape;  // of the logits
  bool weights = false;
  double smoothing = 0;
  int64_t ignore = -100;
  Reduction reduction = Reduction::mean;
};

// The definition, one class at a time: rows are (n, d) of logits [n,c,d]; target holds classes or probabilities.
Values plain_cross_entropy(const Case& k, const std::vector<Values>& in, bool indices) {
  const auto n = size_t(k.shape.size() == 1 ? 1 : k.shape[0]),
             c = size_t(k.shape.size() == 1 ? k.shape[0] : k.shape[1]);
  const size_t d = in[0].size() / (n * c);
  Values rows;
  double sum = 0, count = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < d; ++j) {
      double z = 0, loss = 0;
      auto at = [&](size_t q) { return i * c * d + q * d + j; };
      for (size_t q = 0; q < c; ++q) z += std::exp(in[0][at(q)]);
      double target = indices ? in[1][i * d + j] : 0;
      if (!indices || target != double(k.ignore)) {
        for (size_t q = 0; q < c; ++q) {
          double p = indices ? double(double(q) == target) : in[1][at(q)];
          p = (1 - k.smoothing) * p + k.smoothing / double(c);
          loss -= p * (k.weights ? in[2][q] : 1) * std::log(std::exp(in[0][at(q)]) / z);
        }
        count += indices && k.weights ? in[2][size_t(target)] : 1;
      }
      rows.push_back(loss);
      sum += loss;
    }
  if (k.reduction == Reduction::none) return rows;
  return {k.reduction == Reduction::mean ? sum / count : sum};
}

void check_case(const Case& k, bool indices) {
  const int64_t c = k.shape.size() == 1 ? k.shape[0] : k.shape[1];
  Dims rows = k.shape;
  rows.erase(k.shape.size() == 1 ? 0 : 1);
  OpCase op{.name = message("cross_entropy ", k.shape, " ", k.reduction, k.weights ? " weights" : "", " smoothing ",
                            k.smoothing, indices ? "" : " probabilities"),
            .inputs = {{.shape = k.shape, .low = -3, .high = 3}},
            .run =
                [=](auto& in) {
                  return cross_entropy(in[0], in[1],
                                       {.weight = k.weights ? in[2] : Tensor(),
                                        .reduction = k.reduction,
                                        .label_smoothing = k.smoothing,
                                        .ignore_index = k.ignore});
                },
            .reference = [=](auto& in) { return plain_cross_entropy(k, in, indices); }};
  if (indices)
    op.inputs.push_back({.shape = rows, .low = 0, .high = double(c), .dtype = Dtype::i64});
  else
    op.inputs.push_back({.shape = k.shape, .low = 0, .high = 1});
  if (k.weights) op.inputs.push_back({.shape = {c}, .low = 0.5, .high = 2, .grad = false});
  check_op(op);
}

}  // namespace

TEST_CASE("cross_entropy of class indices") {
  for (Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    check_case({.shape = {7, 10}, .reduction = r}, true);
    check_case({.shape = {7, 10}, .weights = true, .ignore = 3, .reduction = r}, true);
    check_case({.shape = {7, 20}, .weights = true, .smoothing = 0.2, .ignore = 0, .reduction = r}, true);
    check_case({.shape = {3, 5, 4, 2}, .weights = true, .smoothing = 0.1, .ignore = 1, .reduction = r}, true);
  }
  check_case({.shape = {4}}, true);
  check_case({.shape = {1, 1}}, true);
  check_case({.shape = {2, 3, 4}, .reduction = Reduction::none}, true);
  check_case({.shape = {300, 40}}, true);  // more than one part
  check_case({.shape = {260, 3}, .weights = true, .ignore = 1}, true);
  check_case({.shape = {2, 2500}, .reduction = Reduction::none}, true);
  check_case({.shape = {2, 2500}, .weights = true, .smoothing = 0.1}, true);
}

TEST_CASE("cross_entropy of probabilities") {
  for (Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    check_case({.shape = {7, 10}, .reduction = r}, false);
    check_case({.shape = {3, 5, 4, 2}, .weights = true, .smoothing = 0.1, .reduction = r}, false);
  }
  check_case({.shape = {4}}, false);
  check_case({.shape = {260, 3}}, false);
  check_case({.shape = {2, 300}, .smoothing = 0.1}, false);
}

TEST_CASE("cross_entropy where every row is ignored: the mean is NaN, the sum 0, the gradient 0") {
  Tensor x = zeros({3, 4}, {.requires_grad = true}), target = full({3}, -100, {.dtype = Dtype::i64});
  Tensor loss = cross_entropy(x, target);
  CHECK(std::isnan(loss.item()));
  loss.backward();
  CHECK(x.grad().to_vector() == std::vector<float>(12, 0));
  CHECK(cross_entropy(x, target, {.reduction = Reduction::sum}).item() == 0);
  CHECK(cross_entropy(x, target, {.reduction = Reduction::none}).to_vector() == std::vector<float>(3, 0));
}

TEST_CASE("cross_entropy of no rows") {
  Tensor x = zeros({0, 4}, {.requires_grad = true}), target = zeros({0}, {.dtype = Dtype::i64});
  CHECK(std::isnan(cross_entropy(x, target).item()));
  CHECK(cross_entropy(x, target, {.reduction = Reduction::sum}).item() == 0);
  cross_entropy(x, target).backward();
  CHECK(x.grad().shape() == Dims{0, 4});
}

TEST_CASE("cross_entropy is safe for large logits") {
  Tensor x = from_vector<float>({1e4f, 0, -1e4f, 88, 89, 90}, {2, 3}, {.requires_grad = true});
  Tensor loss = cross_entropy(x, tensor<int64_t>({1, 2}), {.reduction = Reduction::none});
  CHECK(loss.to_vector()[0] == 1e4f);
  CHECK(loss.to_vector()[1] == doctest::Approx(std::log(1 + std::exp(-1.0) + std::exp(-2.0))));
  loss.backward(ones({2}));
  CHECK(x.grad().to_vector()[0] == 1);
  CHECK(x.grad().to_vector()[1] == -1);
}

TEST_CASE("cross_entropy says what does not fit") {
  auto classes = [](int64_t n) { return zeros({n}, {.dtype = Dtype::i64}); };
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({512, 10}), classes(128)),
                       "[cross_entropy] logits for 512 rows, targets for 128", ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 10, 3}), classes(2)),
                       "[cross_entropy] input [2,10,3] wants class indices of shape [2,3], got [2]", ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), tensor<int64_t>({0, 3})).item(),
                       "[cross_entropy] target 3 of row 1 is none of the 3 classes", Error);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), tensor<int64_t>({-1, 0})).item(),
                       "[cross_entropy] target -1 of row 0 is none of the 3 classes", Error);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), classes(2), {.weight = ones({4})}),
                       "[cross_entropy] 3 classes, weight of shape [4]", ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(zeros({2, 3}), zeros({2, 4})),
                       "[cross_entropy] logits are f32 [2,3], target probabilities f32 [2,4]", ShapeError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 3}), zeros({2}, {.dtype = Dtype::i32})), DtypeError);
  CHECK_THROWS_AS(cross_entropy(arange(0, 3), zeros({}, {.dtype = Dtype::i64})), DtypeError);
  CHECK_THROWS_AS(cross_entropy(zeros({}), zeros({}, {.dtype = Dtype::i64})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 3}), classes(2), {.label_smoothing = 1.5}), Error);
}
