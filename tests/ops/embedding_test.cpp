#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/parallel_for.h>
#include <tandem/ops/embedding.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("embedding", [](GoldenCall& c) { return embedding(c.in[0], c.in[1]); });

namespace {
std::vector<double> rows(const std::vector<std::vector<double>>& in, size_t width) {
  std::vector<double> y;
  for (double row : in[0])
    for (size_t k = 0; k < width; ++k) y.push_back(in[1][size_t(row) * width + k]);
  return y;
}
}  // namespace

TEST_CASE("embedding") {
  check_op({.name = "embedding",
            .inputs = {{.shape = {2, 3}, .dtype = Dtype::i64, .values = {4, 0, 4, 4, 1, 2}}, {.shape = {5, 4}}},
            .run = [](auto& in) { return embedding(in[0], in[1]); },
            .reference = [](auto& in) { return rows(in, 4); }});
  check_op({.name = "embedding of one word",
            .inputs = {{.shape = {}, .dtype = Dtype::i64, .values = {1}}, {.shape = {2, 3}}},
            .run = [](auto& in) { return embedding(in[0], in[1]); },
            .reference = [](auto& in) { return rows(in, 3); }});
  check_op({.name = "embedding of no words",
            .inputs = {{.shape = {0, 7}, .dtype = Dtype::i64}, {.shape = {2, 3}}},
            .run = [](auto& in) { return embedding(in[0], in[1]); }});
  CHECK(embedding(zeros({0, 7}, {.dtype = Dtype::i32}), zeros({2, 3})).shape() == Dims{0, 7, 3});
}

TEST_CASE("a row used by many is added up in the order of use, whatever the threads") {
  const int64_t n = 3000, width = 16;
  std::vector<int64_t> words;
  for (int64_t i = 0; i < n; ++i) words.push_back(i % 3);
  Tensor index = from_vector(words, {n}), upstream = random_tensor({n, width}, {.dtype = Dtype::f32});
  std::vector<float> expected(3 * width), g = upstream.to_vector();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < width; ++k) expected[size_t(i % 3 * width + k)] += g[size_t(i * width + k)];
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    Tensor w = zeros({3, width}, {.requires_grad = true});
    embedding(index, w).backward(upstream);
    CHECK(w.grad().to_vector() == expected);
  }
  set_num_threads(1);
}

TEST_CASE("embedding names what does not fit") {
  Tensor w = zeros({3, 2});
  CHECK_THROWS_WITH_AS(embedding(tensor({int64_t(3)}), w).to_vector(),
                       "[embedding] index 3 (number 0) is out of range for dimension 0 of size 3", Error);
  CHECK_THROWS_WITH_AS(embedding(zeros({2}), w), "[embedding] indices are i64 or i32, got f32", DtypeError);
  CHECK_THROWS_WITH_AS(embedding(tensor({0}), zeros({3})), "[embedding] the weight is [rows,width], got [3]",
                       ShapeError);
}
