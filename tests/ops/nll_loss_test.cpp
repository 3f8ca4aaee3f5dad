#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/nll_loss.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("nll_loss", [](GoldenCall& c) {
  return nll_loss(c.in[0], c.in[1],
                  {.weight = c.in.size() > 2 ? c.in[2] : Tensor(),
                   .reduction = parse_reduction(c.args.text("reduction", "mean")),
                   .ignore_index = c.args.integer("ignore_index", -100)});
});

TEST_CASE("nll_loss") {
  const std::vector<Dims> shapes = {{7, 10}, {3, 5, 4, 2}, {2, 3, 4}, {5}, {300, 3}};
  for (const Dims& shape : shapes)
    for (Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const int channel = shape.size() == 1 ? 0 : 1;
      const auto n = size_t(channel ? shape[0] : 1), c = size_t(shape[channel]);
      const auto inner = size_t(shape.numel()) / (n * c);
      Dims rows = shape;
      rows.erase(channel);
      const int64_t ignored = n > 1 ? 1 : -100;
      check_op({.name = message("nll_loss of ", shape, ", ", r),
                .inputs = {{.shape = shape, .low = -3, .high = 0},
                           {.shape = rows, .low = 0, .high = double(c), .dtype = Dtype::i64},
                           {.shape = {int64_t(c)}, .low = 0.5, .high = 2, .grad = false}},
                .run =
                    [=](auto& in) {
                      return nll_loss(in[0], in[1], {.weight = in[2], .reduction = r, .ignore_index = ignored});
                    },
                .reference =
                    [=](auto& in) {
                      std::vector<double> loss;
                      double sum = 0, count = 0;
                      for (size_t i = 0; i < n * inner; ++i) {
                        const double k = in[1][i];
                        const bool counts = k != double(ignored);
                        const double w = counts ? in[2][size_t(k)] : 0;
                        loss.push_back(counts ? -w * in[0][(i / inner * c + size_t(k)) * inner + i % inner] : 0);
                        sum += loss.back();
                        count += w;
                      }
                      if (r == Reduction::none) return loss;
                      return std::vector<double>{r == Reduction::mean ? sum / count : sum};
                    },
                .half_tolerance = 3e-2});
    }
}

TEST_CASE("nll_loss where every row is ignored, and of no rows") {
  Tensor x = zeros({2, 3}, {.requires_grad = true}), target = full({2}, 7, {.dtype = Dtype::i64});
  Tensor loss = nll_loss(x, target, {.ignore_index = 7});
  CHECK(std::isnan(loss.item()));
  loss.backward();
  CHECK(x.grad().to_vector() == std::vector<float>(6, 0));
  CHECK(nll_loss(x, target, {.reduction = Reduction::sum, .ignore_index = 7}).item() == 0);
  CHECK(std::isnan(nll_loss(zeros({0, 3}), zeros({0}, {.dtype = Dtype::i64})).item()));
}

TEST_CASE("nll_loss says what does not fit") {
  Tensor target = zeros({2}, {.dtype = Dtype::i64});
  CHECK_THROWS_WITH_AS(nll_loss(zeros({3, 4}), target), "[nll_loss] logits for 3 rows, targets for 2", ShapeError);
  CHECK_THROWS_WITH_AS(nll_loss(zeros({2, 4}), full({2}, 4, {.dtype = Dtype::i64})).item(),
                       "[nll_loss] target 4 of row 0 is none of the 4 classes", Error);
  CHECK_THROWS_AS(nll_loss(zeros({2, 4}), target, {.weight = ones({5})}), ShapeError);
  CHECK_THROWS_AS(nll_loss(zeros({2, 4}), zeros({2})), DtypeError);
}
