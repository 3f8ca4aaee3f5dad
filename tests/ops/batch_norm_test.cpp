#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/copy.h>
#include <tandem/core/kernel.h>
#include <tandem/ops/batch_norm.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("batch_norm", [](GoldenCall& c) {
  auto of = [](std::vector<Tensor>& v, size_t i) { return i < v.size() ? v[i] : Tensor(); };
  return batch_norm(c.in[0], of(c.in, 1), of(c.in, 2), of(c.extra, 0), of(c.extra, 1),
                    {.training = c.args.flag("training", false),
                     .momentum = c.args.number("momentum", 0.1),
                     .eps = c.args.number("eps", 1e-5)});
});

namespace {

using Values = std::vector<double>;

constexpr double kEps = 1e-3;

// Channel by channel, from the definition. in: x, weight, bias, and without training mean and var.
Values plain_batch_norm(const Dims& shape, const std::vector<Values>& in, bool training) {
  const auto n = size_t(shape[0]), c = size_t(shape[1]), inner = in[0].size() / (n * c);
  Values y(in[0].size());
  for (size_t j = 0; j < c; ++j) {
    auto at = [&](size_t i, size_t d) { return (i * c + j) * inner + d; };
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t d = 0; d < inner; ++d) mean += in[0][at(i, d)] / double(n * inner);
    for (size_t i = 0; i < n; ++i)
      for (size_t d = 0; d < inner; ++d) var += std::pow(in[0][at(i, d)] - mean, 2) / double(n * inner);
    if (!training) {
      mean = in[3][j];
      var = in[4][j];
    }
    for (size_t i = 0; i < n; ++i)
      for (size_t d = 0; d < inner; ++d)
        y[at(i, d)] = (in[0][at(i, d)] - mean) / std::sqrt(var + kEps) * in[1][j] + in[2][j];
  }
  return y;
}

const std::vector<Dims> kShapes = {{6, 3},       {4, 5, 3, 7},  {5, 3, 4},   {2, 3, 2, 2, 3},
                                   {2, 1, 3, 3}, {2, 33, 1, 1}, {2, 8, 3, 2}};

}  // namespace

TEST_CASE("batch_norm in training") {
  for (const Dims& shape : kShapes)
    check_op({.name = message("batch_norm of ", shape, " in training"),
              .inputs = {{.shape = shape}, {.shape = {shape[1]}}, {.shape = {shape[1]}}},
              .run = [](auto& in) { return batch_norm(in[0], in[1], in[2], {}, {}, {.training = true, .eps = kEps}); },
              .reference = [&](auto& in) { return plain_batch_norm(shape, in, true); },
              .tolerance = 2e-5,
              .half_tolerance = 5e-2});
}

TEST_CASE("batch_norm with running statistics") {
  for (const Dims& shape : kShapes)
    check_op({.name = message("batch_norm of ", shape),
              .inputs = {{.shape = shape},
                         {.shape = {shape[1]}},
                         {.shape = {shape[1]}},
                         {.shape = {shape[1]}, .grad = false},
                         {.shape = {shape[1]}, .low = 0.5, .high = 2, .grad = false}},
              .run =
                  [](auto& in) {
                    auto dense = [](const Tensor& t) { return as_layout(t, Layout::row_major); };
                    return batch_norm(in[0], in[1], in[2], dense(in[3]), dense(in[4]), {.eps = kEps});
                  },
              .reference = [&](auto& in) { return plain_batch_norm(shape, in, false); },
              .half_tolerance = 5e-2});
}

TEST_CASE("batch_norm of many rows") {
  const Dims shape{9, 16, 20, 15};
  Tensor x = random_tensor(shape), gy = random_tensor(shape), w = random_tensor({16}), b = random_tensor({16});
  auto run = [&](Dtype t) {
    const Dtype parameters = is_half(t) ? Dtype::f32 : t;
    auto leaf = [](const Tensor& v, Dtype type) {
      return copy_of(v, {.dtype = type, .layout = v.layout(), .requires_grad = true});
    };
    Tensor in = leaf(x, t), weight = leaf(w, parameters), bias = leaf(b, parameters);
    Tensor mean = zeros({16}, {.dtype = parameters}), var = ones({16}, {.dtype = parameters});
    Tensor y = batch_norm(in, weight, bias, mean, var, {.training = true, .eps = kEps});
    y.backward(copy_of(gy, {.dtype = t}));
    return std::vector<Tensor>{y, in.grad(), weight.grad(), bias.grad(), mean, var};
  };
  const auto want = run(Dtype::f64), f32 = run(Dtype::f32), f16 = run(Dtype::f16);
  Tensor plain = from_vector(
      plain_batch_norm(shape, {x.to_vector<double>(), w.to_vector<double>(), b.to_vector<double>()}, true), shape);
  CHECK(max_difference(want[0], plain) < 1e-12);
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(max_difference(f32[i], want[i]) < (i == 2 || i == 3 ? 1e-3 : 1e-5));  // sums of 2700 values
    CHECK(max_difference(f16[i], want[i]) < (i == 2 || i == 3 ? 0.2 : 1e-2));
  }
}

TEST_CASE("batch_norm without weight or bias") {
  for (bool training : {true, false})
    check_op({.name = "plain batch_norm",
              .inputs = {{.shape = {4, 5, 3, 3}}},
              .run =
                  [=](auto& in) {
                    TensorOptions o{.dtype = in[0].dtype()};
                    return batch_norm(in[0], {}, {}, zeros({5}, o), ones({5}, o), {.training = training, .eps = kEps});
                  },
              .reference =
                  [=](auto& in) {
                    return plain_batch_norm({4, 5, 3, 3},
                                            {in[0], Values(5, 1), Values(5, 0), Values(5, 0), Values(5, 1)}, training);
                  },
              .tolerance = 2e-5,
              .half_tolerance = 5e-2});
}

TEST_CASE("batch_norm moves running statistics in training and only then") {
  Tensor x = from_vector<float>({1, 10, 3, 30}, {2, 2});
  Tensor mean = tensor({1.f, 1.f}), var = tensor({1.f, 1.f});
  batch_norm(x, {}, {}, mean, var);
  CHECK(mean.to_vector() == std::vector<float>{1, 1});
  batch_norm(x, {}, {}, mean, var, {.training = true, .momentum = 0.25});
  CHECK(mean.to_vector() == std::vector<float>{0.75f + 0.25f * 2, 0.75f + 0.25f * 20});
  CHECK(var.to_vector() == std::vector<float>{0.75f + 0.25f * 2, 0.75f + 0.25f * 200});  // unbiased
}

TEST_CASE("batch_norm of a batch far from zero keeps its digits") {
  Tensor x = from_vector<float>({1000000.f, 1000001.f, 1000002.f, 1000003.f}, {4, 1});
  auto y = batch_norm(x, {}, {}, {}, {}, {.training = true, .eps = 0}).to_vector();
  CHECK(y[0] == doctest::Approx(-1.5 / std::sqrt(1.25)));
  CHECK(y[3] == doctest::Approx(1.5 / std::sqrt(1.25)));
}

TEST_CASE("batch_norm gives images channels-last") {
  Tensor mean = zeros({3}), var = ones({3});
  CHECK(batch_norm(random_tensor({2, 3, 4, 4}, {}), {}, {}, mean, var).layout() == Layout::channels_last);
  CHECK(batch_norm(random_tensor({2, 3, 4}, {}), {}, {}, mean, var).is_contiguous());
}

TEST_CASE("batch_norm of f16 with f32 parameters") {
  Tensor x = random_tensor({4, 3, 2, 2}, {.dtype = Dtype::f16}), mean = zeros({3}), var = ones({3});
  Tensor w = ones({3}, {.requires_grad = true});
  Tensor y = batch_norm(x, w, zeros({3}), mean, var, {.training = true});
  CHECK(y.dtype() == Dtype::f16);
  CHECK(mean.to_vector()[0] != 0);
  y.backward(ones_like(y));
  CHECK(w.grad().dtype() == Dtype::f32);
}

TEST_CASE("batch_norm in half precision all through") {
  Tensor x = random_tensor({4, 8, 2, 2}, {.dtype = Dtype::bf16}), stats[2], wide[2];
  for (Dtype t : {Dtype::bf16, Dtype::f32}) {
    Tensor mean = zeros({8}, {.dtype = t}), var = ones({8}, {.dtype = t}), w = ones({8}, {.dtype = t});
    Tensor y = batch_norm(x, w, zeros({8}, {.dtype = t}), mean, var, {.training = true});
    CHECK(mean.dtype() == t);
    (t == Dtype::f32 ? wide : stats)[0] = mean;
    (t == Dtype::f32 ? wide : stats)[1] = batch_norm(x, w, {}, mean, var);
  }
  CHECK(max_difference(stats[0], wide[0]) < 1e-3);
  CHECK(max_difference(stats[1], wide[1]) < 2e-2);
}

TEST_CASE("batch_norm of an empty batch leaves running statistics alone") {
  Tensor x = zeros({0, 3, 2, 2}, {.requires_grad = true}), w = ones({3}, {.requires_grad = true});
  Tensor mean = zeros({3}), var = ones({3});
  Tensor y = batch_norm(x, w, {}, mean, var, {.training = true});
  CHECK(y.shape() == x.shape());
  CHECK(var.to_vector() == std::vector<float>{1, 1, 1});
  y.backward(zeros({0, 3, 2, 2}));
  CHECK(x.grad().shape() == x.shape());
  CHECK(w.grad().to_vector() == std::vector<float>{0, 0, 0});
}

TEST_CASE("batch_norm says what does not fit") {
  Tensor stats = ones({3});
  CHECK_THROWS_WITH_AS(batch_norm(zeros({1, 3}), {}, {}, stats, stats, {.training = true}),
                       "[batch_norm] training needs more than one value per channel, input is [1,3]", ShapeError);
  CHECK(batch_norm(zeros({1, 3}), {}, {}, stats, stats).shape() == Dims{1, 3});
  CHECK_THROWS_WITH_AS(batch_norm(zeros({2, 4}), stats, {}, {}, {}, {.training = true}),
                       "[batch_norm] input has 4 channels, weight has shape [3]", ShapeError);
  CHECK_THROWS_WITH_AS(batch_norm(zeros({2, 4}), {}, {}, {}, {}),
                       "[batch_norm] without training, running statistics are needed", Error);
  CHECK_THROWS_AS(batch_norm(zeros({2, 3}), {}, {}, stats, {}), Error);
  CHECK_THROWS_AS(batch_norm(zeros({3}), {}, {}, stats, stats), ShapeError);
  CHECK_THROWS_AS(batch_norm(zeros({2, 3}, {.dtype = Dtype::f64}), stats, {}, {}, {}, {.training = true}), DtypeError);
}
