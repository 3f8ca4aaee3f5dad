#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/ops/max_pool2d.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("max_pool2d", [](GoldenCall& c) {
  auto pair = [&](const char* name, int64_t or_else) {
    auto p = c.args.pair(name, or_else);
    return Pair(p[0], p[1]);
  };
  MaxPool2dOptions o{.padding = pair("padding", 0), .dilation = pair("dilation", 1)};
  o.ceil_mode = c.args.flag("ceil_mode", false);
  if (c.args.has("stride")) o.stride = pair("stride", 1);
  return max_pool2d(c.in[0], pair("kernel_size", 1), o);
});

namespace {

// By the definition, with the output's size given.
std::vector<double> reference(const std::vector<double>& x, const Dims& in, const Dims& out, Pair kernel, Pair stride,
                              Pair padding, Pair dilation) {
  std::vector<double> y;
  for (int64_t plane = 0; plane < in[0] * in[1]; ++plane)
    for (int64_t i = 0; i < out[2]; ++i)
      for (int64_t j = 0; j < out[3]; ++j) {
        double best = -INFINITY;
        for (int64_t u = 0; u < kernel.h; ++u)
          for (int64_t v = 0; v < kernel.w; ++v) {
            int64_t a = i * stride.h - padding.h + u * dilation.h, b = j * stride.w - padding.w + v * dilation.w;
            if (a >= 0 && b >= 0 && a < in[2] && b < in[3])
              best = std::max(best, x[size_t((plane * in[2] + a) * in[3] + b)]);
          }
        y.push_back(best);
      }
  return y;
}

// Distinct values far enough apart for central differences, in a scrambled order.
std::vector<double> distinct(int64_t n) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(double(i * 7919 % 10007) * 0.001 - 5);
  return v;
}

void check_pool(const std::string& name, Dims in, Dims out, Pair kernel, MaxPool2dOptions o) {
  check_op(
      {.name = name,
       .inputs = {{.shape = in, .values = distinct(in.numel())}},
       .run = [=](auto& x) { return max_pool2d(x[0], kernel, o); },
       .reference =
           [=](auto& x) { return reference(x[0], in, out, kernel, o.stride.value_or(kernel), o.padding, o.dilation); },
       .half = false});  // rounding makes ties, which then fall differently
  Tensor y = max_pool2d(zeros(in), kernel, o);
  CHECK(y.shape() == out);
  CHECK(y.is_contiguous(Layout::channels_last));
}

}  // namespace

TEST_CASE("max_pool2d") {
  check_pool("2x2", {2, 3, 8, 6}, {2, 3, 4, 3}, 2, {});
  check_pool("2x2 of many channels", {2, 37, 4, 4}, {2, 37, 2, 2}, 2, {});
  check_pool("2x2 of eight channels", {2, 8, 4, 6}, {2, 8, 2, 3}, 2, {});
  check_pool("3x3 of eight channels", {2, 8, 5, 6}, {2, 8, 3, 3}, 3, {.stride = 2, .padding = 1});
  check_pool("2x2 of odd sizes", {2, 3, 5, 7}, {2, 3, 2, 3}, 2, {});
  check_pool("2x2 of odd sizes, ceil", {2, 3, 5, 7}, {2, 3, 3, 4}, 2, {.ceil_mode = true});
  check_pool("2x2 with stride 1", {1, 2, 4, 5}, {1, 2, 3, 4}, 2, {.stride = 1});
  check_pool("2x2 with padding", {1, 2, 4, 5}, {1, 2, 3, 3}, 2, {.padding = 1});
  check_pool("3x3 with stride 2, padding 1", {1, 2, 7, 9}, {1, 2, 4, 5}, 3, {.stride = 2, .padding = 1});
  check_pool("3x3 with stride 1, padding 1", {2, 2, 6, 6}, {2, 2, 6, 6}, 3, {.stride = 1, .padding = 1});
  check_pool("3x3 with stride 2, ceil", {1, 2, 6, 8}, {1, 2, 3, 4}, 3, {.stride = 2, .ceil_mode = true});
  check_pool("dilated", {1, 2, 9, 8}, {1, 2, 5, 4}, 3, {.stride = 1, .dilation = 2});
  check_pool("dilated with padding", {1, 2, 9, 8}, {1, 2, 4, 3}, 3, {.stride = 2, .padding = 1, .dilation = 2});
  check_pool("uneven", {2, 3, 9, 8}, {2, 3, 5, 7}, {3, 2}, {.stride = Pair{2, 1}, .padding = {1, 0}});
  check_pool("windows with gaps", {1, 2, 8, 8}, {1, 2, 3, 3}, 2, {.stride = 3});
  check_pool("a window of more than 255", {1, 2, 17, 18}, {1, 2, 2, 3}, 16, {.stride = 1});
  check_pool("the whole image", {2, 3, 4, 4}, {2, 3, 1, 1}, 4, {});
  check_op({.name = "max_pool2d of no images", .inputs = {{.shape = {0, 3, 8, 8}}}, .run = [](auto& in) {
              return max_pool2d(in[0], 2);
            }});
}

TEST_CASE("max_pool2d in half precision picks among the rounded values") {
  for (int64_t channels : {3, 16}) {
    Tensor x = random_tensor({2, channels, 6, 6}, {.dtype = Dtype::bf16});
    Tensor wide = from_vector(x.to_vector<double>(), x.shape());
    for (Pair kernel : {2, 3}) {
      Tensor y = max_pool2d(x, kernel);
      CHECK(y.dtype() == Dtype::bf16);
      CHECK(max_difference(y, max_pool2d(wide, kernel)) == 0);
    }
  }
}

TEST_CASE("max_pool2d of one image") {
  Tensor x = random_tensor({3, 6, 5}, {.requires_grad = true});
  Tensor batch = from_vector(x.to_vector(), {1, 3, 6, 5}, {.requires_grad = true});
  Tensor y = max_pool2d(x, 3, {.stride = 2, .padding = 1}), yb = max_pool2d(batch, 3, {.stride = 2, .padding = 1});
  CHECK(y.shape() == Dims{3, 3, 3});
  CHECK(y.is_contiguous());
  CHECK(y.to_vector() == yb.to_vector());
  y.backward(ones(y.shape()));
  yb.backward(ones(yb.shape()));
  CHECK(x.grad().to_vector() == batch.grad().to_vector());
}

TEST_CASE("the first of equal values takes max_pool2d's gradient") {
  for (Pair stride : {Pair(2), Pair(1)}) {
    Tensor x = zeros({1, 1, 2, 2}, {.requires_grad = true});
    max_pool2d(x, 2, {.stride = stride}).backward(ones({1, 1, 1, 1}));
    CHECK(x.grad().to_vector() == std::vector<float>{1, 0, 0, 0});
  }
  Tensor x = zeros({1, 1, 3, 3}, {.requires_grad = true});
  max_pool2d(x, 3, {.padding = 1}).backward(ones({1, 1, 1, 1}));
  CHECK(x.grad().to_vector() == std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("NaN and -inf in max_pool2d") {
  auto pooled = [](std::vector<float> v) {
    Tensor x = from_vector(v, {1, 1, 2, 2}, {.requires_grad = true});
    Tensor y = max_pool2d(x, 2);
    y.backward(ones({1, 1, 1, 1}));
    return std::pair(y.item(), x.grad().to_vector());
  };
  for (size_t i = 0; i < 4; ++i) {
    std::vector<float> v{1, 2, 3, 4}, want(4);
    v[i] = NAN;
    want[i] = 1;
    auto [y, g] = pooled(v);
    CHECK(std::isnan(y));
    CHECK(g == want);
  }
  auto [y, g] = pooled({-INFINITY, -INFINITY, -INFINITY, -INFINITY});
  CHECK(y == -INFINITY);
  CHECK(g == std::vector<float>{1, 0, 0, 0});
  Tensor all = full({1, 1, 3, 3}, -INFINITY, {.requires_grad = true});
  Tensor out = max_pool2d(all, 3, {.stride = 2, .padding = 1});
  CHECK(out.to_vector() == std::vector<float>(4, -INFINITY));
  out.backward(ones({1, 1, 2, 2}));
  CHECK(all.grad().to_vector() == std::vector<float>{1, 1, 0, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("a window that dilation carries over the whole image holds padding alone") {
  Tensor x = full({1, 2, 1, 3}, 5, {.requires_grad = true});
  Tensor y = max_pool2d(x, {2, 1}, {.stride = 1, .padding = {1, 0}, .dilation = 2});
  CHECK(y.to_vector() == std::vector<float>(6, -INFINITY));
  y.backward(ones(y.shape()));
  CHECK(x.grad().to_vector() == std::vector<float>(6, 0));
}

TEST_CASE("max_pool2d without gradients") {
  NoGradGuard no_grad;
  Tensor x = random_tensor({1, 2, 5, 5}, {.requires_grad = true});
  CHECK(!max_pool2d(x, 2).requires_grad());
  CHECK(max_difference(max_pool2d(x, 3, {.stride = 1}),
                       max_pool2d(max_pool2d(x, 2, {.stride = 1}), 2, {.stride = 1})) == 0);
}

TEST_CASE("max_pool2d says what does not fit") {
  CHECK_THROWS_WITH_AS(max_pool2d(zeros({1, 1, 8, 8}), 3, {.padding = 2}),
                       "[max_pool2d] padding 2 must be between 0 and half the kernel's size 3", ShapeError);
  CHECK_THROWS_WITH_AS(max_pool2d(zeros({1, 1, 2, 8}), 3),
                       "[max_pool2d] a window of 3 does not fit an image of 2 with padding 0", ShapeError);
  CHECK_THROWS_WITH_AS(max_pool2d(zeros({8, 8}), 2), "[max_pool2d] takes [n,c,h,w] or [c,h,w], got [8,8]", ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 1, 8, 8}), 0), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 1, 8, 8}), 2, {.stride = 0}), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 1, 8, 8}), 2, {.dilation = 0}), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 1, 8, 8}, {.dtype = Dtype::i64}), 2), DtypeError);
}
