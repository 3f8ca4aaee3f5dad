#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

#include <limits>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("reshape", [](GoldenCall& c) { return reshape(c.in[0], c.args.dims("shape")); });
TANDEM_GOLDEN("flatten", [](GoldenCall& c) {
  return flatten(c.in[0], int(c.args.integer("start_dim", 0)), int(c.args.integer("end_dim", -1)));
});
TANDEM_GOLDEN("transpose", [](GoldenCall& c) {
  return transpose(c.in[0], int(c.args.integer("dim0", 0)), int(c.args.integer("dim1", 0)));
});
TANDEM_GOLDEN("permute", [](GoldenCall& c) { return permute(c.in[0], c.args.dims("dims")); });
TANDEM_GOLDEN("unsqueeze", [](GoldenCall& c) { return unsqueeze(c.in[0], int(c.args.integer("dim", 0))); });
TANDEM_GOLDEN("squeeze", [](GoldenCall& c) {
  return c.args.has("dim") ? squeeze(c.in[0], int(c.args.integer("dim", 0))) : squeeze(c.in[0]);
});
TANDEM_GOLDEN("expand", [](GoldenCall& c) { return expand(c.in[0], c.args.dims("shape")); });
TANDEM_GOLDEN("narrow", [](GoldenCall& c) {
  return narrow(c.in[0], int(c.args.integer("dim", 0)), c.args.integer("start", 0), c.args.integer("length", 0));
});
TANDEM_GOLDEN("select",
              [](GoldenCall& c) { return select(c.in[0], int(c.args.integer("dim", 0)), c.args.integer("index", 0)); });
TANDEM_GOLDEN("slice", [](GoldenCall& c) {
  return slice(c.in[0], int(c.args.integer("dim", 0)), c.args.integer("start", 0),
               c.args.integer("end", std::numeric_limits<int64_t>::max()), c.args.integer("step", 1));
});
TANDEM_GOLDEN("relu_of_slice",
              [](GoldenCall& c) { return relu(slice(c.in[0], 1, 0, std::numeric_limits<int64_t>::max(), 2)); });

namespace {

// 0, 1, 2, ... in row-major order.
Tensor counted(const Dims& shape, Layout layout = Layout::row_major) {
  return arange(0, double(shape.numel()), 1, {.dtype = Dtype::f32}).reshape(shape).contiguous(layout);
}
bool shares_memory(const Tensor& a, const Tensor& b) { return a.storage().get() == b.storage().get(); }

void check_view(const std::string& name, const Dims& shape, Tensor (*f)(const Tensor&)) {
  check_op({.name = name, .inputs = {{.shape = shape}}, .run = [f](auto& in) { return f(in[0]); }});
}

}  // namespace

TEST_CASE("gradients, layouts and accumulation of views") {
  check_view("reshape", {2, 3, 4, 5}, [](const Tensor& x) { return reshape(x, {4, -1, 3}); });
  check_view("reshape that splits", {2, 6, 1, 4}, [](const Tensor& x) { return reshape(x, {2, 3, 2, 2, 2}); });
  check_view("reshape of nothing", {0, 3}, [](const Tensor& x) { return reshape(x, {3, 0}); });
  check_view("flatten", {2, 3, 4, 5}, [](const Tensor& x) { return flatten(x, 1); });
  check_view("flatten in the middle", {2, 3, 4, 5}, [](const Tensor& x) { return flatten(x, 1, 2); });
  check_view("flatten of a scalar", {}, [](const Tensor& x) { return flatten(x); });
  check_view("transpose", {2, 3, 4, 5}, [](const Tensor& x) { return transpose(x, 1, -1); });
  check_view("t", {2, 3}, [](const Tensor& x) { return t(x); });
  check_view("permute", {2, 3, 4, 5}, [](const Tensor& x) { return permute(x, {3, -4, 2, 1}); });
  check_view("unsqueeze", {2, 3, 4}, [](const Tensor& x) { return unsqueeze(x, 1); });
  check_view("unsqueeze at the end", {2, 3}, [](const Tensor& x) { return unsqueeze(x, -1); });
  check_view("squeeze", {1, 3, 1, 2}, [](const Tensor& x) { return squeeze(x); });
  check_view("squeeze of one", {1, 3, 1, 2}, [](const Tensor& x) { return squeeze(x, 2); });
  check_view("narrow", {2, 5, 3, 4}, [](const Tensor& x) { return narrow(x, 1, 1, 3); });
  check_view("select", {2, 5, 3, 4}, [](const Tensor& x) { return select(x, 2, -1); });
  check_view("slice", {2, 5, 3, 4}, [](const Tensor& x) { return slice(x, 1, -4, 100, 2); });
  check_view("expand", {3, 1}, [](const Tensor& x) { return expand(x, {4, -1, 5}); });
  check_view("expand channels", {2, 3, 1, 1}, [](const Tensor& x) { return expand(x, {2, 3, 4, 5}); });
  check_view("expand of a scalar", {}, [](const Tensor& x) { return expand(x, {2, 3}); });
  check_view("expand to nothing", {1, 3}, [](const Tensor& x) { return expand(x, {0, 3}); });
  check_view("contiguous", {2, 3, 4, 5}, [](const Tensor& x) { return contiguous(x, Layout::channels_last); });
  check_view("a chain", {2, 3, 4, 5}, [](const Tensor& x) {
    return slice(transpose(reshape(narrow(x, 1, 1, 2), {4, 20}), 0, 1), 0, 3, 17, 3);
  });
}

TEST_CASE("views share memory, and reshape does where strides allow") {
  Tensor x = counted({2, 3, 4});
  CHECK(shares_memory(x, x.reshape({6, 4})));
  CHECK(shares_memory(x, x.transpose(0, 1).narrow(0, 1, 2).select(2, 0)));
  CHECK(shares_memory(x, x.narrow(2, 1, 2).reshape({6, 2})));
  CHECK(shares_memory(x, x.transpose(1, 2).reshape({2, 2, 2, 3})));
  CHECK(!shares_memory(x, x.transpose(1, 2).reshape({2, 12})));
  CHECK(!shares_memory(x, x.narrow(2, 1, 2).reshape({12})));
  CHECK(x.narrow(2, 1, 2).reshape({12}).to_vector() == x.narrow(2, 1, 2).to_vector());
  CHECK(x.contiguous().is_same(x));
  Tensor e = counted({3, 1}).expand({3, 4});
  CHECK(e.strides() == Dims{1, 0});
  CHECK(e.reshape({3, 2, 2}).to_vector() == std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
}

TEST_CASE("the order of elements is row-major whatever the layout") {
  Tensor x = counted({2, 3, 4, 5}), y = counted({2, 3, 4, 5}, Layout::channels_last);
  CHECK(!y.is_contiguous());
  auto same = [](const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && a.to_vector() == b.to_vector(); };
  CHECK(same(x.flatten(1), y.flatten(1)));
  CHECK(same(x.reshape({6, 20}), y.reshape({6, 20})));
  CHECK(same(x.flatten(2), y.flatten(2)));
  CHECK(shares_memory(y, y.flatten(2)));  // height and width run on in channels-last too
  CHECK(same(x.permute({0, 2, 3, 1}), y.permute({0, 2, 3, 1})));
  CHECK(y.permute({0, 2, 3, 1}).is_contiguous());
  CHECK(same(x.slice(1, 0, 3, 2), y.slice(1, 0, 3, 2)));
}

TEST_CASE("slice follows Python's rules") {
  Tensor x = counted({5});
  auto of = [&](int64_t start, int64_t end, int64_t step = 1) { return x.slice(0, start, end, step).to_vector(); };
  CHECK(of(1, 3) == std::vector<float>{1, 2});
  CHECK(of(-2, 100) == std::vector<float>{3, 4});
  CHECK(of(0, -1, 2) == std::vector<float>{0, 2});
  CHECK(of(0, 5, 3) == std::vector<float>{0, 3});
  CHECK(of(3, 1).empty());
  CHECK(of(7, 9).empty());
  CHECK(of(-9, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()) == std::vector<float>{0});
}

TEST_CASE("a part's gradient is zero elsewhere") {
  Tensor x = counted({2, 3}).set_requires_grad();
  x.select(1, 1).backward(ones({2}));
  CHECK(x.grad().to_vector() == std::vector<float>{0, 1, 0, 0, 1, 0});
  x.zero_grad();
  for (int i = 0; i < 2; ++i) x.narrow(0, 1, 1).backward(full({1, 3}, 2));
  CHECK(x.grad().to_vector() == std::vector<float>{0, 0, 0, 4, 4, 4});
}

TEST_CASE("what views refuse") {
  Tensor x = zeros({2, 3, 4});
  CHECK_THROWS_WITH_AS(x.reshape({5, 5}), "[reshape] [2,3,4] has 24 elements, [5,5] wants 25", ShapeError);
  CHECK_THROWS_AS(x.reshape({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-1, 5}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-2, -12}), ShapeError);
  CHECK_THROWS_AS(zeros({0}).reshape({-1, 0}), ShapeError);
  CHECK_THROWS_AS(x.flatten(2, 1), ShapeError);
  CHECK_THROWS_AS(x.transpose(0, 3), ShapeError);
  CHECK_THROWS_AS(x.t(), ShapeError);
  CHECK_THROWS_AS(x.permute({0, 1}), ShapeError);
  CHECK_THROWS_AS(x.permute({0, 1, 1}), ShapeError);
  CHECK_THROWS_AS(x.unsqueeze(4), ShapeError);
  CHECK_THROWS_WITH_AS(x.narrow(1, 2, 2), "[narrow] 2 elements from 2 of dimension 1 of [2,3,4]", ShapeError);
  CHECK_THROWS_AS(x.narrow(1, -4, 1), ShapeError);
  CHECK_THROWS_AS(x.select(0, 2), ShapeError);
  CHECK_THROWS_AS(zeros({}).select(0, 0), ShapeError);
  CHECK_THROWS_AS(x.slice(0, 0, 1, 0), ShapeError);
  CHECK_THROWS_AS(x.expand({2, 3, 5}), ShapeError);
  CHECK_THROWS_AS(x.expand({3, 4}), ShapeError);
  CHECK_THROWS_AS(x.expand({-1, 2, 3, 4}), ShapeError);
  CHECK_THROWS_AS(x.contiguous(Layout::channels_last), ShapeError);
}
