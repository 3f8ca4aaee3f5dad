#include "tests/support/golden.h"
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/matmul.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("matmul", [](GoldenCall& c) { return matmul(c.in[0], c.in[1]); });
TANDEM_GOLDEN("matmul_of_transpose", [](GoldenCall& c) { return matmul(c.in[0].t(), c.in[1]); });

namespace {

// By the definition, for shapes of at least two dimensions.
std::vector<double> reference(const std::vector<double>& a, const Dims& as, const std::vector<double>& b,
                              const Dims& bs) {
  auto batch = [](const Dims& s) { return Dims(std::span<const int64_t>(s.begin(), size_t(s.size() - 2))); };
  const Dims full = broadcast_shapes("reference", batch(as), batch(bs));
  const int64_t m = as[as.size() - 2], k = as.back(), n = bs.back();
  // The number of an operand's matrix that belongs to the result's matrix `index`.
  auto matrix = [&](int64_t index, const Dims& own) {
    int64_t at = 0, step = 1;
    for (int i = full.size() - 1, j = own.size() - 1; i >= 0; --i, --j) {
      int64_t position = index % full[i];
      index /= full[i];
      if (j < 0) continue;
      if (own[j] != 1) at += position * step;
      step *= own[j];
    }
    return at;
  };
  std::vector<double> y;
  for (int64_t p = 0; p < full.numel(); ++p) {
    const int64_t a0 = matrix(p, batch(as)) * m * k, b0 = matrix(p, batch(bs)) * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double s = 0;
        for (int64_t l = 0; l < k; ++l) s += a[size_t(a0 + i * k + l)] * b[size_t(b0 + l * n + j)];
        y.push_back(s);
      }
  }
  return y;
}

void check_matmul(Dims a, Dims b) {
  Dims a2 = a, b2 = b;
  if (a2.size() == 1) a2.insert(0, 1);
  if (b2.size() == 1) b2.insert(1, 1);
  check_op({.name = "matmul of " + to_string(a) + " by " + to_string(b),
            .inputs = {{.shape = a}, {.shape = b}},
            .run = [](auto& in) { return matmul(in[0], in[1]); },
            .reference = [=](auto& in) { return reference(in[0], a2, in[1], b2); },
            .library = true});
}

}  // namespace

TEST_CASE("matmul of matrices and vectors") {
  check_matmul({3, 4}, {4, 5});
  check_matmul({1, 7}, {7, 1});
  check_matmul({4}, {4});
  check_matmul({3, 4}, {4});
  check_matmul({4}, {4, 3});
  check_matmul({65, 33}, {33, 17});
  check_matmul({0, 4}, {4, 3});
}

TEST_CASE("matmul of batches") {
  check_matmul({2, 3, 4}, {2, 4, 5});
  check_matmul({2, 1, 3, 4}, {5, 4, 2});
  check_matmul({2, 3, 4}, {4, 5});
  check_matmul({3, 4}, {2, 4, 5});
  check_matmul({5, 2, 3}, {3});
  check_matmul({3}, {5, 3, 2});
  check_matmul({2, 3, 1, 4}, {1, 3, 4, 2});
  check_matmul({3, 20, 30}, {3, 30, 40});
  check_matmul({2, 0, 4}, {4, 3});
}

TEST_CASE("matmul reads transposed operands as they lie") {
  auto run = [](auto& in) { return matmul(in[0].t(), in[1]); };
  check_op(
      {.name = "transpose by matrix", .inputs = {{.shape = {4, 3}}, {.shape = {4, 5}}}, .run = run, .library = true});
  check_op({.name = "matrix by transpose",
            .inputs = {{.shape = {3, 4}}, {.shape = {5, 4}}},
            .run = [](auto& in) { return matmul(in[0], in[1].t()); },
            .library = true});
  check_op({.name = "transpose by transpose, beyond the loops",
            .inputs = {{.shape = {30, 40}}, {.shape = {50, 30}}},
            .run = [](auto& in) { return matmul(in[0].t(), in[1].t()); },
            .library = true});
  check_op({.name = "batches of transposes",
            .inputs = {{.shape = {2, 4, 3}}, {.shape = {2, 5, 4}}},
            .run = [](auto& in) { return matmul(in[0].transpose(1, 2), in[1].transpose(1, 2)); },
            .library = true});
  check_op({.name = "an expanded batch",
            .inputs = {{.shape = {1, 3, 4}}, {.shape = {2, 4, 5}}},
            .run =
                [](auto& in) {
                  return matmul(in[0].expand({2, 3, 4}), in[1]);
                },
            .library = true});
  check_op({.name = "an expanded matrix",
            .inputs = {{.shape = {1, 4}}, {.shape = {4, 5}}},
            .run =
                [](auto& in) {
                  return matmul(in[0].expand({3, 4}), in[1]);
                },
            .library = true});
  check_op({.name = "a matrix by itself",
            .inputs = {{.shape = {4, 4}}},
            .run = [](auto& in) { return matmul(in[0], in[0].t()); },
            .library = true});
}

TEST_CASE("matmul in f64 gives the same bits for any number of threads" * cpu_only()) {
  auto run = [](Dims as, Dims bs, int threads) {
    Tensor a = full(as, 0.1, {.dtype = Dtype::f64, .requires_grad = true});
    Tensor b = full(bs, 0.3, {.dtype = Dtype::f64, .requires_grad = true});
    for (Tensor t : {a, b})
      for (int64_t i = 0; i < t.numel(); ++i) t.ptr<double>()[i] *= double(i * 7919 % 1009);
    set_num_threads(threads);
    Tensor y = matmul(a, b);
    y.backward(y.detach());
    set_num_threads(1);
    return std::vector<Tensor>{y, a.grad(), b.grad()};
  };
  for (auto [as, bs] : {std::pair(Dims{200, 70}, Dims{70, 130}), std::pair(Dims{5, 40, 30}, Dims{30, 20}),
                        std::pair(Dims{6, 20, 30}, Dims{6, 30, 20}), std::pair(Dims{20, 30}, Dims{6, 30, 20})}) {
    auto one = run(as, bs, 1), three = run(as, bs, 3);
    for (size_t i = 0; i < one.size(); ++i) CHECK(same_bits(one[i], three[i]));
  }
}

TEST_CASE("matmul rounds f32 to TF32 where that is allowed" * cuda_only()) {
  Tensor a = full({32, 32}, 1 + 1.0 / 4096), b = ones({32, 32});
  CHECK(matmul(a, b).to_vector()[0] == 32 + 32.f / 4096);
  ContextGuard restore(context());
  allow_tf32_matmul(true);
  CHECK(matmul(a, b).to_vector()[0] == 32);
}

TEST_CASE("matmul in half precision rounds a gradient once, however many products add up to it") {
  // bf16 counts no further than 256 in steps of one.
  Tensor a = ones({300, 1, 3}, {.dtype = Dtype::bf16}), b = ones({1, 2}, {.dtype = Dtype::bf16, .requires_grad = true});
  Tensor y = matmul(a.transpose(1, 2), b);
  y.backward(full(y.shape(), 1.0 / 3, {.dtype = Dtype::bf16}));
  const double third = full({}, 1.0 / 3, {.dtype = Dtype::bf16}).item<double>();
  CHECK(b.grad().to_vector()[0] == full({}, 900 * third, {.dtype = Dtype::bf16}).item());
}

TEST_CASE("matmul of operands that start anywhere and have rows with gaps") {
  Tensor a = random_tensor({9, 11}), b = random_tensor({13, 9});
  auto product = [&](Dtype t) {
    return matmul(copy_of(a, {.dtype = t}).narrow(1, 1, 7), copy_of(b, {.dtype = t}).narrow(0, 3, 7).narrow(1, 2, 5));
  };
  for (Dtype t : {Dtype::f32, Dtype::f16}) CHECK(max_difference(product(t), product(Dtype::f64)) < 1e-2);
}

TEST_CASE("matmul over an empty sum is 0") {
  CHECK(matmul(zeros({2, 0}), zeros({0, 3})).to_vector() == std::vector<float>(6, 0));
  Tensor b = ones({4, 2}, {.requires_grad = true}), a = zeros({0, 3, 4});
  matmul(a, b).backward(zeros({0, 3, 2}));
  CHECK(b.grad().to_vector() == std::vector<float>(8, 0));
}

TEST_CASE("matmul says what does not fit") {
  CHECK_THROWS_WITH_AS(matmul(zeros({2, 3}), zeros({4, 5})), "[matmul] [2,3] by [4,5]: 3 columns, 4 rows", ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 3, 4}), zeros({3, 4, 5})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({}), zeros({4})), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 3}), zeros({3, 2}, {.dtype = Dtype::f64})), DtypeError);
}
