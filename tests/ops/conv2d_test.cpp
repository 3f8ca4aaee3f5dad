#include "tests/support/golden.h"
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/conv2d.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("conv2d", [](GoldenCall& c) {
  auto pair = [&](const char* name, int64_t or_else) {
    auto p = c.args.pair(name, or_else);
    return Pair(p[0], p[1]);
  };
  Conv2dOptions o{pair("stride", 1), pair("padding", 0), pair("dilation", 1), c.args.integer("groups", 1)};
  return conv2d(c.in[0], c.in[1], c.in.size() > 2 ? c.in[2] : Tensor(), o);
});

namespace {

// By the definition.
std::vector<double> reference(const std::vector<std::vector<double>>& in, const Dims& xs, const Dims& ws,
                              const Conv2dOptions& o) {
  auto size = [](int64_t n, int64_t k, int64_t stride, int64_t padding, int64_t dilation) {
    return (n + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
  };
  const int64_t ho = size(xs[2], ws[2], o.stride.h, o.padding.h, o.dilation.h);
  const int64_t wo = size(xs[3], ws[3], o.stride.w, o.padding.w, o.dilation.w);
  const int64_t group_out = ws[0] / o.groups;
  std::vector<double> y;
  for (int64_t n = 0; n < xs[0]; ++n)
    for (int64_t k = 0; k < ws[0]; ++k)
      for (int64_t i = 0; i < ho; ++i)
        for (int64_t j = 0; j < wo; ++j) {
          double s = in.size() > 2 ? in[2][size_t(k)] : 0;
          for (int64_t c = 0; c < ws[1]; ++c)
            for (int64_t u = 0; u < ws[2]; ++u)
              for (int64_t v = 0; v < ws[3]; ++v) {
                int64_t a = i * o.stride.h - o.padding.h + u * o.dilation.h;
                int64_t b = j * o.stride.w - o.padding.w + v * o.dilation.w;
                if (a < 0 || b < 0 || a >= xs[2] || b >= xs[3]) continue;
                int64_t channel = k / group_out * ws[1] + c;
                s += in[0][size_t(((n * xs[1] + channel) * xs[2] + a) * xs[3] + b)] *
                     in[1][size_t(((k * ws[1] + c) * ws[2] + u) * ws[3] + v)];
              }
          y.push_back(s);
        }
  return y;
}

void check_conv(const std::string& name, Dims x, Dims w, bool bias, Conv2dOptions o = {}) {
  ContextGuard restore(context());
  use_deterministic_algorithms(true);  // the same call is held against itself, bit by bit
  OpCase c{.name = name,
           .inputs = {{.shape = x}, {.shape = w}},
           .run = [=](auto& in) { return conv2d(in[0], in[1], bias ? in[2] : Tensor(), o); },
           .reference = [=](auto& in) { return reference(in, x, w, o); },
           .library = true};
  if (bias) c.inputs.push_back({.shape = {w[0]}});
  check_op(c);
}

struct Gradients {
  Tensor y, x, w, b;
};
Gradients gradients(const Tensor& x_in, const Tensor& w_in, const Conv2dOptions& o, Dtype dtype, int threads,
                    Layout layout = Layout::row_major) {
  set_num_threads(threads);
  TensorOptions options{.dtype = dtype, .layout = layout, .requires_grad = true};
  Tensor x = copy_of(x_in, options), w = copy_of(w_in, options), b = zeros({w.size(0)}, options);
  Tensor y = conv2d(x, w, b, o);
  y.backward(ones(y.shape(), {.dtype = dtype}));
  set_num_threads(1);
  return {y, x.grad(), w.grad(), b.grad()};
}

}  // namespace

TEST_CASE("conv2d") {
  check_conv("3x3", {2, 3, 8, 8}, {4, 3, 3, 3}, true, {.padding = 1});
  check_conv("3x3 without bias or padding", {2, 3, 6, 7}, {4, 3, 3, 3}, false);
  check_conv("1x1", {3, 2, 5, 5}, {3, 2, 1, 1}, true);
  check_conv("1x1 with stride", {2, 4, 6, 7}, {5, 4, 1, 1}, true, {.stride = 3});
  check_conv("5x5", {1, 3, 9, 9}, {5, 3, 5, 5}, true, {.padding = 2});
  check_conv("stride 2", {2, 3, 9, 8}, {4, 3, 3, 3}, true, {.stride = 2, .padding = 1});
  check_conv("dilation", {1, 3, 9, 9}, {4, 3, 3, 3}, true, {.padding = 2, .dilation = 2});
  check_conv("uneven options", {2, 3, 9, 9}, {4, 3, 3, 1}, true, {.stride = {2, 1}, .padding = {1, 0}});
  check_conv("groups", {2, 4, 9, 7}, {6, 2, 3, 3}, true, {.stride = 2, .padding = 1, .groups = 2});
  check_conv("depthwise", {2, 4, 8, 8}, {4, 1, 3, 3}, false, {.padding = 1, .groups = 4});
  check_conv("depthwise with two outputs each", {1, 3, 6, 6}, {6, 1, 3, 3}, true, {.padding = 1, .groups = 3});
  check_conv("padding wider than the kernel", {1, 2, 3, 3}, {2, 2, 2, 2}, true, {.padding = 3});
  check_conv("a window of the image's size", {2, 3, 7, 7}, {2, 3, 7, 7}, true, {.stride = 2, .padding = 3});
  check_conv("many channels", {2, 24, 5, 5}, {40, 24, 3, 3}, true, {.padding = 1});
  check_conv("no images", {0, 3, 8, 8}, {4, 3, 3, 3}, true, {.padding = 1});
}

TEST_CASE("conv2d with few inputs and whole vectors of outputs") {
  check_conv("few inputs", {3, 3, 6, 7}, {32, 3, 3, 3}, true, {.padding = 1});
  check_conv("few inputs, many outputs", {18, 3, 3, 3}, {64, 3, 3, 3}, true, {.padding = 1});
  check_conv("few inputs without bias", {2, 1, 9, 5}, {16, 1, 5, 5}, false);
  check_conv("few inputs, stride and dilation", {2, 2, 12, 11}, {48, 2, 3, 3}, true,
             {.stride = {2, 3}, .padding = {2, 1}, .dilation = {1, 2}});
}

TEST_CASE("conv2d's own kernels give the same bits for any layout and number of threads" * cpu_only()) {
  Tensor x = random_tensor({19, 3, 9, 8}), w = random_tensor({32, 3, 3, 3});
  const Conv2dOptions o{.padding = 1};
  Gradients one = gradients(x, w, o, Dtype::f64, 1);
  for (int threads : {1, 2, 3})
    for (Layout l : {Layout::row_major, Layout::channels_last}) {
      Gradients f64 = gradients(x, w, o, Dtype::f64, threads, l);
      CHECK(same_bits(f64.y, one.y));
      CHECK(same_bits(f64.x, one.x));
      CHECK(same_bits(f64.w, one.w));
      CHECK(same_bits(f64.b, one.b));
    }
  Gradients first = gradients(x, w, o, Dtype::f32, 1);
  for (int threads : {2, 3}) {
    Gradients f32 = gradients(x, w, o, Dtype::f32, threads, Layout::channels_last);
    CHECK(same_bits(f32.w, first.w));
    CHECK(same_bits(f32.b, first.b));
  }
}

TEST_CASE("conv2d gives the same bits in every run") {
  ContextGuard restore(context());
  use_deterministic_algorithms(true);
  Tensor x = random_tensor({4, 20, 9, 9}), w = random_tensor({24, 20, 3, 3});
  Gradients a = gradients(x, w, {.padding = 1}, Dtype::f32, 2), b = gradients(x, w, {.padding = 1}, Dtype::f32, 2);
  CHECK(same_bits(a.y, b.y));
  CHECK(same_bits(a.x, b.x));
  CHECK(same_bits(a.w, b.w));
  CHECK(same_bits(a.b, b.b));
}

TEST_CASE("conv2d takes no more memory once it has run") {
  Tensor x = random_tensor({8, 3, 32, 32}), w = random_tensor({32, 3, 3, 3});
  for (Dtype t : {Dtype::f32, Dtype::f64}) {
    gradients(x, w, {.padding = 1}, t, 2);
    const size_t reserved = memory_reserved(test_device());
    for (int i = 0; i < 5; ++i) gradients(x, w, {.padding = 1}, t, 2);
    CHECK(memory_reserved(test_device()) == reserved);
  }
}

TEST_CASE("conv2d's result and gradients lie channels-last where the input does") {
  Tensor x = random_tensor({2, 3, 5, 4}), w = random_tensor({4, 3, 3, 3});
  Gradients g = gradients(x, w, {}, Dtype::f32, 1, Layout::channels_last);
  CHECK(g.y.is_contiguous(Layout::channels_last));
  CHECK(g.x.is_contiguous(Layout::channels_last));
  CHECK(g.w.is_contiguous(Layout::channels_last));
  CHECK(conv2d(x, w).is_contiguous(Layout::channels_last));
}

TEST_CASE("conv2d of one image") {
  Tensor w = random_tensor({4, 3, 3, 3}, {}), b = random_tensor({4}, {});
  Tensor x = random_tensor({3, 6, 5}, {.requires_grad = true});
  Tensor batch = from_vector(x.to_vector(), {1, 3, 6, 5}, {.requires_grad = true});
  Tensor y = conv2d(x, w, b), yb = conv2d(batch, w, b);
  CHECK(y.shape() == Dims{4, 4, 3});
  CHECK(y.to_vector() == yb.to_vector());
  y.backward(ones(y.shape()));
  yb.backward(ones(yb.shape()));
  CHECK(x.grad().to_vector() == batch.grad().to_vector());
}

TEST_CASE("conv2d computes only the gradients that are wanted") {
  Tensor x = random_tensor({2, 3, 5, 5}, {}), w = random_tensor({4, 3, 3, 3}, {});
  Tensor b = random_tensor({4}, {.requires_grad = true});
  conv2d(x, w, b).backward(ones({2, 4, 3, 3}));
  CHECK(b.grad().to_vector() == std::vector<float>(4, 18));
  CHECK(!w.grad().defined());
  w.set_requires_grad();
  conv2d(x, w).backward(ones({2, 4, 3, 3}));
  CHECK(w.grad().defined());
  CHECK(!x.grad().defined());
}

TEST_CASE("conv2d keeps f32's full precision") {
  // Terms that cancel, of which bf16 or tf32 would lose all that is left.
  std::vector<float> values(64 * 9, 1 + 1.f / 4096), weights(64 * 64 * 9, 1);
  values[0] = 1;
  for (size_t i = 0; i < weights.size(); i += 2) weights[i] = -1;
  Tensor x = from_vector(values, {1, 64, 3, 3}), w = from_vector(weights, {64, 64, 3, 3});
  CHECK(std::abs(conv2d(x, w).to_vector()[0] - 1.0 / 4096) < 1e-6);
}

TEST_CASE("conv2d rounds f32 to TF32 where that is allowed" * cuda_only()) {
  ContextGuard restore(context());
  allow_tf32_convolution(true);
  Tensor x = full({1, 64, 3, 3}, 1 + 1.0 / 4096, {.requires_grad = true}), w = ones({64, 64, 3, 3});
  Tensor y = conv2d(x, w);
  CHECK(y.to_vector()[0] == 64 * 9);
  y.backward(full(y.shape(), 1 + 1.0 / 4096));
  CHECK(x.grad().to_vector()[0] == 64);
}

TEST_CASE("conv2d chosen by timing, or to be deterministic, computes the same") {
  ContextGuard restore(context());
  Tensor x = random_tensor({2, 5, 7, 6}), w = random_tensor({4, 5, 3, 3});
  const Conv2dOptions o{.padding = 1, .dilation = 2};
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    benchmark_convolutions(false);
    use_deterministic_algorithms(true);
    Gradients a = gradients(x, w, o, t, 1);
    use_deterministic_algorithms(false);
    Gradients b = gradients(x, w, o, t, 1);
    benchmark_convolutions(true);
    Gradients c = gradients(x, w, o, t, 1);
    const double near = t == Dtype::f64 ? 1e-12 : t == Dtype::f32 ? 1e-4 : 0.25;
    for (auto& [one, other] : {std::pair(a, b), std::pair(b, c)}) {
      CHECK(max_difference(one.y, other.y) < near);
      CHECK(max_difference(one.x, other.x) < near);
      CHECK(max_difference(one.w, other.w) < near);
    }
  }
}

TEST_CASE("conv2d of images that start at no multiple of 16 bytes") {
  Tensor x = random_tensor({3, 1, 5, 3}), w = random_tensor({2, 1, 3, 3});
  for (Dtype t : {Dtype::f32, Dtype::bf16}) {
    Tensor all = copy_of(x, {.dtype = t, .layout = Layout::channels_last}), weight = copy_of(w, {.dtype = t});
    all.set_requires_grad();
    Tensor y = conv2d(all.narrow(0, 1, 2), weight), whole = conv2d(all.detach(), weight);
    CHECK(max_difference(y, whole.narrow(0, 1, 2)) < 1e-2);
    y.backward(ones(y.shape(), {.dtype = t}));
    CHECK(all.grad().narrow(0, 0, 1).to_vector() == std::vector<float>(15, 0));
    CHECK(all.grad().narrow(0, 1, 1).to_vector() == all.grad().narrow(0, 2, 1).to_vector());
  }
}

TEST_CASE("conv2d says what does not fit") {
  Tensor w = zeros({128, 3, 3, 3});
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 64, 8, 8}), w), "[conv2d] input has 64 channels, weight [128,3,3,3] wants 3",
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 3, 8, 8}), w, {}, {.groups = 2}),
                       "[conv2d] input has 3 channels, weight [128,3,3,3] in 2 groups wants 6", ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 9, 8, 8}), w, {}, {.groups = 3}),
                       "[conv2d] 3 groups, weight [128,3,3,3] has 128 outputs", ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 3, 2, 8}), w),
                       "[conv2d] a kernel of 3 with dilation 1 does not fit an image of 2 with padding 0", ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(zeros({2, 3, 8, 8}), w, zeros({64})),
                       "[conv2d] bias [64], weight [128,3,3,3] wants [128]", ShapeError);
  CHECK_THROWS_AS(conv2d(zeros({3, 8}), w), ShapeError);
  CHECK_THROWS_AS(conv2d(zeros({2, 3, 8, 8}), zeros({128, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d(zeros({2, 3, 8, 8}), w, {}, {.stride = 0}), ShapeError);
  CHECK_THROWS_AS(conv2d(zeros({2, 3, 8, 8}), w, {}, {.padding = -1}), ShapeError);
  CHECK_THROWS_AS(conv2d(zeros({2, 3, 8, 8}, {.dtype = Dtype::f64}), w), DtypeError);
}
