#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/index.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("index_select",
              [](GoldenCall& c) { return index_select(c.in[0], int(c.args.integer("dim", 0)), c.in[1]); });
TANDEM_GOLDEN("gather", [](GoldenCall& c) { return gather(c.in[0], int(c.args.integer("dim", 0)), c.in[1]); });

namespace {

Input indices(const Dims& shape, std::vector<double> values) {
  return {.shape = shape, .dtype = Dtype::i64, .values = std::move(values)};
}

// gather by its definition.
std::vector<double> gathered(const std::vector<double>& x, const Dims& x_shape, const std::vector<double>& index,
                             const Dims& shape, int dim) {
  std::vector<double> y;
  for (size_t flat = 0; flat < index.size(); ++flat) {
    auto rest = int64_t(flat);
    int64_t at = 0, stride = 1;
    Dims place = shape;
    for (int d = shape.size(); d--;) {
      place[d] = rest % shape[d];
      rest /= shape[d];
    }
    for (int d = shape.size(); d--;) {
      at += stride * (d == dim ? int64_t(index[flat]) : place[d]);
      stride *= x_shape[d];
    }
    y.push_back(x[size_t(at)]);
  }
  return y;
}

}  // namespace

TEST_CASE("index_select") {
  for (int dim : {0, 1, 2, 3}) {
    const Dims shape{3, 4, 2, 5};
    check_op({.name = message("index_select of dimension ", dim),
              .inputs = {{.shape = shape}, indices({5}, {1, 0, 1, 1, 0})},
              .run = [=](auto& in) { return index_select(in[0], dim, in[1]); },
              .reference =
                  [=](auto& in) {
                    Dims to = shape;
                    to[dim] = 5;
                    std::vector<double> index;
                    const int64_t inner = dense_strides(to, Layout::row_major)[dim];
                    for (int64_t i = 0; i < to.numel(); ++i) index.push_back(in[1][size_t(i / inner % 5)]);
                    return gathered(in[0], shape, index, to, dim);
                  }});
  }
  check_op({.name = "index_select of a vector",
            .inputs = {{.shape = {4}}, indices({3}, {3, 3, 1})},
            .run = [](auto& in) { return index_select(in[0], -1, in[1]); },
            .reference =
                [](auto& in) {
                  return std::vector<double>{in[0][3], in[0][3], in[0][1]};
                }});
  check_op({.name = "index_select by a scalar",
            .inputs = {{.shape = {4, 2}}, indices({}, {2})},
            .run = [](auto& in) { return index_select(in[0], 0, in[1]); },
            .reference =
                [](auto& in) {
                  return std::vector<double>{in[0][4], in[0][5]};
                }});
  check_op({.name = "index_select of nothing",
            .inputs = {{.shape = {3, 4}}, {.shape = {0}, .dtype = Dtype::i64}},
            .run = [](auto& in) { return index_select(in[0], 1, in[1]); }});
  check_op({.name = "index_select of empty slices",
            .inputs = {{.shape = {3, 0}}, indices({2}, {2, 0})},
            .run = [](auto& in) { return index_select(in[0], 0, in[1]); }});
}

TEST_CASE("gather") {
  struct Case {
    Dims x, index;
    int dim;
    std::vector<double> values;
  };
  const Case cases[] = {{{3, 5}, {3, 2}, 1, {4, 0, 1, 1, 3, 2}},
                        {{3, 5}, {2, 4}, 0, {0, 2, 1, 0, 1, 2, 1, 0}},
                        {{2, 3, 4}, {2, 5, 3}, 1, {0, 1, 2, 2, 1, 0, 0, 0, 0, 2, 2, 2, 1, 2, 1,
                                                   1, 1, 1, 0, 2, 0, 2, 0, 2, 1, 0, 0, 2, 2, 2}},
                        {{2, 2, 2, 3}, {2, 1, 2, 3}, 1, {0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0}},
                        {{4}, {6}, 0, {3, 3, 0, 2, 3, 0}},
                        {{}, {}, 0, {0}}};
  for (auto& c : cases)
    check_op({.name = message("gather of ", c.x, " by ", c.index, " along ", c.dim),
              .inputs = {{.shape = c.x}, indices(c.index, c.values)},
              .run = [&](auto& in) { return gather(in[0], c.dim, in[1]); },
              .reference = [&](auto& in) { return gathered(in[0], c.x, in[1], c.index, c.dim); }});
  check_op({.name = "gather of nothing",
            .inputs = {{.shape = {3, 4}}, {.shape = {0, 4}, .dtype = Dtype::i64}},
            .run = [](auto& in) { return gather(in[0], 0, in[1]); }});
}

TEST_CASE("what many indices pick adds up in their order") {
  const int64_t n = 5000, rows = 60, width = 3;
  std::vector<int64_t> index;
  for (int64_t j = 0; j < n; ++j) index.push_back(j * j % 97 % rows);
  std::vector<float> g, slices(size_t(rows * width), 0), elements(size_t(rows), 0);
  for (int64_t j = 0; j < n * width; ++j) g.push_back(float(j % 1013) - 500);  // sums are exact
  for (int64_t j = 0; j < n; ++j) {
    elements[size_t(index[size_t(j)])] += g[size_t(j)];
    for (int64_t k = 0; k < width; ++k) slices[size_t(index[size_t(j)] * width + k)] += g[size_t(j * width + k)];
  }
  Tensor which = from_vector(index, {n}), x = zeros({rows, width}, {.requires_grad = true});
  index_select(x, 0, which).backward(from_vector(g, {n, width}));
  CHECK(x.grad().to_vector() == slices);
  Tensor v = zeros({rows}, {.requires_grad = true}), upstream = from_vector(g, {n * width}).slice(0, 0, n);
  gather(v, 0, which).backward(upstream);
  CHECK(v.grad().to_vector() == elements);
}

TEST_CASE("indices may be i32, and any dtype is picked from") {
  Tensor which = tensor({2, 0});
  CHECK(which.dtype() == Dtype::i32);
  for (Dtype t : {Dtype::f64, Dtype::bf16, Dtype::i64, Dtype::i32, Dtype::u8}) {
    Tensor x = arange(0, 3, 1, {.dtype = t});
    CHECK(index_select(x, 0, which).dtype() == t);
    CHECK(index_select(x, 0, which).to_vector() == std::vector<float>{2, 0});
    CHECK(gather(x, 0, which).to_vector() == std::vector<float>{2, 0});
  }
  CHECK(index_select(tensor({true, false, false}), 0, which).to_vector<bool>() == std::vector<bool>{false, true});
}

TEST_CASE("index_select keeps channels-last") {
  Tensor x = random_tensor({3, 4, 2, 5}, {.layout = Layout::channels_last});
  for (int dim : {0, 1, 2, 3}) {
    Tensor y = index_select(x, dim, tensor({int64_t(1), int64_t(0)}));
    CHECK(y.layout() == Layout::channels_last);
    CHECK(same_bits(y, index_select(x.contiguous(), dim, tensor({int64_t(1), int64_t(0)}))));
  }
}

TEST_CASE("indices out of range are named") {
  Tensor x = zeros({2, 5});
  CHECK_THROWS_WITH_AS(index_select(x, 1, tensor({int64_t(4), int64_t(5)})).to_vector(),
                       "[index_select] index 5 (number 1) is out of range for dimension 1 of size 5", Error);
  CHECK_THROWS_WITH_AS(gather(x, 0, from_vector<int64_t>({1, -1}, {1, 2})).to_vector(),
                       "[gather] index -1 (number 1) is out of range for dimension 0 of size 2", Error);
  CHECK_THROWS_WITH_AS(index_select(x, 0, zeros({1})), "[index_select] indices are i64 or i32, got f32", DtypeError);
  CHECK_THROWS_WITH_AS(index_select(x, 0, zeros({1, 1}, {.dtype = Dtype::i64})),
                       "[index_select] the index has one dimension, got shape [1,1]", ShapeError);
  CHECK_THROWS_WITH_AS(gather(x, 1, zeros({3, 1}, {.dtype = Dtype::i64})),
                       "[gather] an index of shape [3,1] does not fit [2,5] along dimension 1", ShapeError);
  CHECK_THROWS_AS(gather(x, 1, zeros({2}, {.dtype = Dtype::i64})), ShapeError);
  CHECK_THROWS_AS(index_select(x, 2, tensor({int64_t(0)})), ShapeError);
}
