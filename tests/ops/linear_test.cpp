#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/linear.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("linear", [](GoldenCall& c) { return linear(c.in[0], c.in[1], c.in.size() > 2 ? c.in[2] : Tensor()); });

namespace {

// x [rows, k], w [n, k] and maybe b [n]
OpCase linear_case(std::string name, Dims x, int64_t n, bool bias) {
  const int64_t k = x.back();
  OpCase c{.name = name,
           .inputs = {{.shape = x}, {.shape = {n, k}}},
           .run = [](auto& in) { return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor()); },
           .reference =
               [n, k](auto& in) {
                 auto &x = in[0], &w = in[1];
                 const auto rows = k ? int64_t(x.size()) / k : 0;
                 std::vector<double> y(size_t(rows * n));
                 for (int64_t i = 0; i < rows; ++i)
                   for (int64_t j = 0; j < n; ++j) {
                     double s = in.size() > 2 ? in[2][size_t(j)] : 0;
                     for (int64_t l = 0; l < k; ++l) s += x[size_t(i * k + l)] * w[size_t(j * k + l)];
                     y[size_t(i * n + j)] = s;
                   }
                 return y;
               },
           .library = true};
  if (bias) c.inputs.push_back({.shape = {n}});
  return c;
}

}  // namespace

TEST_CASE("linear") {
  check_op(linear_case("linear", {30, 5}, 2, true));
  check_op(linear_case("linear without bias", {30, 5}, 2, false));
  check_op(linear_case("linear with one input and one output", {7, 1}, 1, true));
  check_op(linear_case("linear beyond the loops", {40, 33}, 70, true));
  check_op(linear_case("linear beyond the loops without bias", {40, 33}, 70, false));
  check_op(linear_case("linear of a wide layer", {3, 130}, 260, true));
  check_op(linear_case("linear of four dimensions", {2, 3, 4, 6}, 5, true));
  check_op(linear_case("linear of a vector", {6}, 4, true));
  check_op(linear_case("linear of no rows", {0, 4}, 3, true));
}

TEST_CASE("linear by loops gives the same bits for any layout and number of threads") {
  OpCase c = linear_case("linear", {30, 5}, 2, true);
  c.library = false;
  check_op(c);
}

TEST_CASE("linear's bias gradient gives the same bits for any number of threads") {
  for (int64_t outputs : {70, 72}) {
    Tensor w = random_tensor({outputs, 1}, {}), x = random_tensor({5000, 1}, {});
    Tensor gy = random_tensor({5000, outputs}, {}), grads[2];
    for (int threads : {1, 2}) {
      set_num_threads(threads);
      Tensor b = zeros({outputs}, {.requires_grad = true});
      linear(x, w, b).backward(gy);
      grads[threads - 1] = b.grad();
    }
    set_num_threads(1);
    CHECK(same_bits(grads[0], grads[1]));
    std::vector<double> sums(static_cast<size_t>(outputs));
    auto v = gy.to_vector<double>();
    for (size_t i = 0; i < v.size(); ++i) sums[i % sums.size()] += v[i];
    CHECK(max_difference(grads[0], from_vector(sums, {outputs})) < 1e-4);
  }
}

TEST_CASE("linear's data gradient where the weight's rows lie a power of two apart") {
  // Longer than one of the panels such a weight is read by, both ways.
  Tensor w = random_tensor({1030, 1024}), gy = random_tensor({16, 1030});
  auto gradient = [&](Dtype t) {
    Tensor x = zeros({16, 1024}, {.dtype = t, .requires_grad = true});
    Tensor y = linear(x, copy_of(w, {.dtype = t}));
    y.backward(copy_of(gy, {.dtype = t}), true);
    y.backward(copy_of(gy, {.dtype = t}));
    return x.grad();
  };
  CHECK(max_difference(gradient(Dtype::f32), gradient(Dtype::f64)) < 2e-4);
}

TEST_CASE("linear of no inputs is its bias") {
  Tensor y = linear(zeros({2, 0}), zeros({3, 0}), tensor({1.f, 2.f, 3.f}));
  CHECK(y.to_vector() == std::vector<float>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("linear computes only the gradients that are wanted") {
  Tensor x = random_tensor({4, 3}, {}), w = random_tensor({2, 3}, {.requires_grad = true});
  linear(x, w).backward(ones({4, 2}));
  CHECK(w.grad().defined());
  CHECK(!x.grad().defined());
}

TEST_CASE("linear says what does not fit") {
  CHECK_THROWS_WITH_AS(linear(zeros({2, 4}), zeros({3, 5})),
                       "[linear] input [2,4], weight [3,5] wants a last dimension of 5", ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 5}), zeros({3, 5}), zeros({4})), "[linear] bias [4], weight [3,5] wants [3]",
                       ShapeError);
  CHECK_THROWS_AS(linear(zeros({}), zeros({3, 5})), ShapeError);
  CHECK_THROWS_AS(linear(zeros({2, 5}), zeros({5})), ShapeError);
  CHECK_THROWS_AS(linear(zeros({2, 5}, {.dtype = Dtype::f64}), zeros({3, 5})), DtypeError);
}
