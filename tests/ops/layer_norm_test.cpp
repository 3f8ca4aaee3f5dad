#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/layer_norm.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("layer_norm", [](GoldenCall& c) {
  return layer_norm(c.in[0], c.args.dims("normalized_shape"), c.in.size() > 1 ? c.in[1] : Tensor(),
                    c.in.size() > 2 ? c.in[2] : Tensor(), c.args.number("eps", 1e-5));
});

namespace {

using Values = std::vector<double>;

constexpr double kEps = 1e-3;

Values plain_layer_norm(const Values& x, size_t n, const Values& weight, const Values& bias) {
  Values y(x.size());
  for (size_t r = 0; r < x.size(); r += n) {
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; ++i) mean += x[r + i] / double(n);
    for (size_t i = 0; i < n; ++i) var += std::pow(x[r + i] - mean, 2) / double(n);
    for (size_t i = 0; i < n; ++i) y[r + i] = (x[r + i] - mean) / std::sqrt(var + kEps) * weight[i] + bias[i];
  }
  return y;
}

}  // namespace

TEST_CASE("layer_norm") {
  struct {
    Dims shape, normalized;
  } cases[] = {{{5, 6}, {6}},          {{2, 3, 20}, {20}},        {{2, 3, 5}, {3, 5}}, {{3, 4, 2, 5}, {5}},
               {{3, 4, 2, 5}, {2, 5}}, {{3, 4, 2, 5}, {4, 2, 5}}, {{7}, {7}},          {{2, 2500}, {2500}}};
  for (auto& c : cases)
    check_op(
        {.name = message("layer_norm of ", c.shape, " over ", c.normalized),
         .inputs = {{.shape = c.shape}, {.shape = c.normalized}, {.shape = c.normalized}},
         .run = [&](auto& in) { return layer_norm(in[0], c.normalized, in[1], in[2], kEps); },
         .reference = [&](auto& in) { return plain_layer_norm(in[0], size_t(c.normalized.numel()), in[1], in[2]); },
         .tolerance = 2e-5,
         .half_tolerance = 5e-2});
}

TEST_CASE("layer_norm without weight, bias or both") {
  const Values one(12, 1), zero(12, 0);
  const Input x{.shape = {5, 12}}, parameter{.shape = {12}};
  check_op({.name = "plain layer_norm",
            .inputs = {x},
            .run = [](auto& in) { return layer_norm(in[0], {12}, {}, {}, kEps); },
            .reference = [&](auto& in) { return plain_layer_norm(in[0], 12, one, zero); },
            .tolerance = 2e-5,
            .half_tolerance = 5e-2});
  check_op({.name = "layer_norm without bias",
            .inputs = {x, parameter},
            .run = [](auto& in) { return layer_norm(in[0], {12}, in[1], {}, kEps); },
            .reference = [&](auto& in) { return plain_layer_norm(in[0], 12, in[1], zero); },
            .tolerance = 2e-5,
            .half_tolerance = 5e-2});
  check_op({.name = "layer_norm without weight",
            .inputs = {x, parameter},
            .run = [](auto& in) { return layer_norm(in[0], {12}, {}, in[1], kEps); },
            .reference = [&](auto& in) { return plain_layer_norm(in[0], 12, one, in[1]); },
            .tolerance = 2e-5,
            .half_tolerance = 5e-2});
}

TEST_CASE("layer_norm of half precision may have parameters, and their gradients, in f32") {
  for (Dtype t : {Dtype::f16, Dtype::bf16}) {
    Tensor x = random_tensor({6, 40}, {.dtype = t}), w = random_tensor({40}, {.dtype = Dtype::f32});
    Tensor b = random_tensor({40}, {.dtype = Dtype::f32}), upstream = random_tensor({6, 40}, {.dtype = t});
    auto run = [&](Dtype in, Dtype parameters) {
      std::vector<Tensor> leaves{x.to(in), w.to(parameters), b.to(parameters)};
      for (Tensor& l : leaves) (l = l.detach()).set_requires_grad();
      Tensor y = layer_norm(leaves[0], {40}, leaves[1], leaves[2]);
      y.backward(upstream.to(in));
      CHECK(leaves[1].grad().dtype() == parameters);
      return std::vector<Tensor>{y, leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    };
    auto got = run(t, Dtype::f32), want = run(Dtype::f64, Dtype::f64);
    const double eps = t == Dtype::f16 ? 4e-3 : 3e-2;  // a unit in the last place of results below 4
    CHECK(max_difference(got[0], want[0]) < eps);
    CHECK(max_difference(got[1], want[1]) < eps);
    CHECK(max_difference(got[2], want[2]) < 1e-5);  // sums of exact values in f32
    CHECK(max_difference(got[3], want[3]) < 1e-5);
  }
}

TEST_CASE("layer_norm of nothing") {
  Tensor x = zeros({0, 3}, {.requires_grad = true}), w = ones({3}, {.requires_grad = true});
  Tensor y = layer_norm(x, {3}, w);
  CHECK(y.shape() == Dims{0, 3});
  y.backward(zeros({0, 3}));
  CHECK(w.grad().to_vector() == std::vector<float>{0, 0, 0});
  CHECK(layer_norm(zeros({3, 0}), {0}).shape() == Dims{3, 0});
}

TEST_CASE("layer_norm says what does not fit") {
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), {2}), "[layer_norm] input [2,3] does not end in [2]", ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({3}), {2, 3}), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({3}), {}), ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), {3}, ones({2})),
                       "[layer_norm] normalises over [3], weight has shape [2]", ShapeError);
  CHECK_THROWS_AS(layer_norm(arange(0, 3), {3}), DtypeError);
  CHECK_THROWS_AS(layer_norm(zeros({3}), {3}, ones({3}, {.dtype = Dtype::f64})), DtypeError);
}
