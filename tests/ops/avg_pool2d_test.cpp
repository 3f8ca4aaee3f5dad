#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/avg_pool2d.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

Pair pair_of(const GoldenArgs& args, const char* name, int64_t or_else) {
  auto p = args.pair(name, or_else);
  return {p[0], p[1]};
}

}  // namespace

TANDEM_GOLDEN("avg_pool2d", [](GoldenCall& c) {
  AvgPool2dOptions o{.padding = pair_of(c.args, "padding", 0),
                     .ceil_mode = c.args.flag("ceil_mode", false),
                     .count_include_pad = c.args.flag("count_include_pad", true)};
  if (c.args.has("stride")) o.stride = pair_of(c.args, "stride", 1);
  return avg_pool2d(c.in[0], pair_of(c.args, "kernel_size", 1), o);
});
TANDEM_GOLDEN("adaptive_avg_pool2d",
              [](GoldenCall& c) { return adaptive_avg_pool2d(c.in[0], pair_of(c.args, "output_size", 1)); });

namespace {

// By the definition, with the output's size given.
std::vector<double> reference(const std::vector<double>& x, const Dims& in, const Dims& out, Pair kernel,
                              const AvgPool2dOptions& o) {
  const Pair stride = o.stride.value_or(kernel);
  std::vector<double> y;
  for (int64_t plane = 0; plane < in[0] * in[1]; ++plane)
    for (int64_t i = 0; i < out[2]; ++i)
      for (int64_t j = 0; j < out[3]; ++j) {
        double sum = 0, inside = 0, with_padding = 0;
        for (int64_t u = 0; u < kernel.h; ++u)
          for (int64_t v = 0; v < kernel.w; ++v) {
            int64_t a = i * stride.h - o.padding.h + u, b = j * stride.w - o.padding.w + v;
            if (a < in[2] + o.padding.h && b < in[3] + o.padding.w) ++with_padding;
            if (a < 0 || b < 0 || a >= in[2] || b >= in[3]) continue;
            ++inside;
            sum += x[size_t((plane * in[2] + a) * in[3] + b)];
          }
        y.push_back(sum / (o.count_include_pad ? with_padding : inside));
      }
  return y;
}

void check_pool(const std::string& name, Dims in, Dims out, Pair kernel, AvgPool2dOptions o) {
  for (bool include : {true, false}) {
    o.count_include_pad = include;
    check_op({.name = name + (include ? ", padding counts" : ", padding does not count"),
              .inputs = {{.shape = in}},
              .run = [=](auto& x) { return avg_pool2d(x[0], kernel, o); },
              .reference = [=](auto& x) { return reference(x[0], in, out, kernel, o); }});
  }
  Tensor y = avg_pool2d(zeros(in), kernel, o);
  CHECK(y.shape() == out);
  CHECK(y.is_contiguous(Layout::channels_last));
}

void check_adaptive(Dims in, Pair output) {
  check_op({.name = "adaptive_avg_pool2d of " + to_string(in),
            .inputs = {{.shape = in}},
            .run = [=](auto& x) { return adaptive_avg_pool2d(x[0], output); },
            .reference =
                [=](auto& x) {
                  auto end = [](int64_t i, int64_t n, int64_t o) { return ((i + 1) * n + o - 1) / o; };
                  std::vector<double> y;
                  for (int64_t plane = 0; plane < in[0] * in[1]; ++plane)
                    for (int64_t i = 0; i < output.h; ++i)
                      for (int64_t j = 0; j < output.w; ++j) {
                        double sum = 0, count = 0;
                        for (int64_t u = i * in[2] / output.h; u < end(i, in[2], output.h); ++u)
                          for (int64_t v = j * in[3] / output.w; v < end(j, in[3], output.w); ++v) {
                            sum += x[0][size_t((plane * in[2] + u) * in[3] + v)];
                            ++count;
                          }
                        y.push_back(sum / count);
                      }
                  return y;
                }});
}

}  // namespace

TEST_CASE("avg_pool2d") {
  check_pool("2x2", {2, 3, 8, 6}, {2, 3, 4, 3}, 2, {});
  check_pool("2x2 of many channels", {2, 70, 4, 4}, {2, 70, 2, 2}, 2, {});
  check_pool("3x3 of eight channels", {2, 8, 5, 6}, {2, 8, 3, 3}, 3, {.stride = 2, .padding = 1});
  check_pool("2x2 of odd sizes", {1, 2, 5, 7}, {1, 2, 2, 3}, 2, {});
  check_pool("2x2 of odd sizes, ceil", {1, 2, 5, 7}, {1, 2, 3, 4}, 2, {.ceil_mode = true});
  check_pool("3x3 with stride 2, padding 1", {1, 2, 7, 9}, {1, 2, 4, 5}, 3, {.stride = 2, .padding = 1});
  check_pool("3x3 with stride 2, padding 1, ceil", {1, 2, 6, 8}, {1, 2, 4, 5}, 3,
             {.stride = 2, .padding = 1, .ceil_mode = true});
  check_pool("3x3 with stride 1, padding 1", {2, 2, 6, 6}, {2, 2, 6, 6}, 3, {.stride = 1, .padding = 1});
  check_pool("uneven", {2, 3, 9, 8}, {2, 3, 5, 7}, {3, 2}, {.stride = Pair{2, 1}, .padding = {1, 0}});
  check_pool("windows with gaps", {1, 2, 8, 8}, {1, 2, 3, 3}, 2, {.stride = 3});
  check_op({.name = "avg_pool2d of no images", .inputs = {{.shape = {0, 3, 8, 8}}}, .run = [](auto& in) {
              return avg_pool2d(in[0], 2);
            }});
}

TEST_CASE("adaptive_avg_pool2d") {
  check_adaptive({2, 3, 7, 8}, 1);
  check_adaptive({2, 3, 7, 8}, {2, 3});
  check_adaptive({1, 2, 3, 2}, {5, 4});
  check_adaptive({1, 2, 6, 6}, 6);
  check_op({.name = "adaptive_avg_pool2d of no images", .inputs = {{.shape = {0, 3, 8, 8}}}, .run = [](auto& in) {
              return adaptive_avg_pool2d(in[0], 1);
            }});
}

TEST_CASE("average pooling of one image") {
  Tensor x = random_tensor({3, 6, 5}, {.requires_grad = true});
  Tensor batch = from_vector(x.to_vector(), {1, 3, 6, 5}, {.requires_grad = true});
  for (auto pool : {+[](const Tensor& t) { return avg_pool2d(t, 2); },
                    +[](const Tensor& t) { return adaptive_avg_pool2d(t, 2); }}) {
    x.zero_grad();
    batch.zero_grad();
    Tensor y = pool(x), yb = pool(batch);
    CHECK(y.shape() == Dims{3, y.size(1), 2});
    CHECK(y.to_vector() == yb.to_vector());
    y.backward(ones(y.shape()));
    yb.backward(ones(yb.shape()));
    CHECK(x.grad().to_vector() == batch.grad().to_vector());
  }
}

TEST_CASE("average pooling says what does not fit") {
  CHECK_THROWS_WITH_AS(avg_pool2d(zeros({1, 1, 8, 8}), 3, {.padding = 2}),
                       "[avg_pool2d] padding 2 must be between 0 and half the kernel's size 3", ShapeError);
  CHECK_THROWS_AS(avg_pool2d(zeros({1, 1, 2, 2}), 3), ShapeError);
  CHECK_THROWS_AS(avg_pool2d(zeros({2, 2}), 2), ShapeError);
  CHECK_THROWS_AS(avg_pool2d(zeros({1, 1, 8, 8}, {.dtype = Dtype::i32}), 2), DtypeError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 1, 8, 8}), 0), ShapeError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 1, 0, 8}), 1), ShapeError);
}
