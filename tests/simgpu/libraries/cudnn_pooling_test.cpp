// cuDNN's pooling and activation against plain loops, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "cudnn_objects.h"
#include "refusals.h"

using namespace simgpu_test;

namespace {

struct Window {
  int size, pad, stride;
};

constexpr Sizes kX{2, 3, 7, 6};

Sizes pooled(const Window& w) {
  return {kX.n, kX.c, (kX.h + 2 * w.pad - w.size) / w.stride + 1, (kX.w + 2 * w.pad - w.size) / w.stride + 1};
}

/// f(index in y, indices in x of the window's pixels) for each element of y.
template <class F>
void for_each_window(cudnnTensorFormat_t format, const Window& w, F&& f) {
  const Sizes y = pooled(w);
  for (int n = 0; n < y.n; ++n)
    for (int c = 0; c < y.c; ++c)
      for (int p = 0; p < y.h; ++p)
        for (int q = 0; q < y.w; ++q) {
          std::vector<size_t> pixels;
          for (int r = 0; r < w.size; ++r)
            for (int s = 0; s < w.size; ++s) {
              const int h = p * w.stride - w.pad + r, x = q * w.stride - w.pad + s;
              if (h >= 0 && h < kX.h && x >= 0 && x < kX.w) pixels.push_back(kX.at(format, n, c, h, x));
            }
          f(y.at(format, n, c, p, q), pixels);
        }
}

template <class T>
void check_pooling(cudnnPoolingMode_t mode, cudnnTensorFormat_t format, const Window& w, double beta) {
  CAPTURE(int(mode));
  CAPTURE(int(format));
  Dnn dnn;
  Pooling pooling;
  REQUIRE(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_PROPAGATE_NAN, w.size, w.size, w.pad, w.pad, w.stride,
                                      w.stride) == CUDNN_STATUS_SUCCESS);
  const Sizes sizes = pooled(w);
  Tensor x(format, TypeOf<T>::dnn, kX.n, kX.c, kX.h, kX.w),
      y(format, TypeOf<T>::dnn, sizes.n, sizes.c, sizes.h, sizes.w);
  int n, c, h, wide;
  REQUIRE(cudnnGetPooling2dForwardOutputDim(pooling, x, &n, &c, &h, &wide) == CUDNN_STATUS_SUCCESS);
  CHECK(h == sizes.h);
  CHECK(wide == sizes.w);
  const bool max = mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  const auto values = quarters(kX.elements(), 1), gradients = quarters(sizes.elements(), 2);
  std::vector<double> before_y = quarters(sizes.elements(), 3), before_x = quarters(kX.elements(), 4);
  std::vector<double> out(sizes.elements()), blended = out, dx(kX.elements());
  for_each_window(format, w, [&](size_t to, const std::vector<size_t>& pixels) {
    const double divisor =
        mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ? w.size * w.size : double(pixels.size());
    double best = -1e9, sum = 0;
    for (const size_t p : pixels) best = std::max(best, values[p]), sum += values[p];
    out[to] = max ? best : sum / divisor;
    blended[to] = out[to] + beta * before_y[to];
    bool found = false;
    for (const size_t p : pixels) {
      if (!max) dx[p] += gradients[to] / divisor;
      if (max && !found && values[p] == best) dx[p] += gradients[to], found = true;
    }
  });
  for (size_t i = 0; i < dx.size(); ++i) dx[i] += beta * before_x[i];

  const typename TypeOf<T>::Scale one = 1, b = typename TypeOf<T>::Scale(beta);
  TypedValues<T> from(values), to(before_y), plain(out), gradient(gradients), result(before_x);
  REQUIRE(cudnnPoolingForward(dnn, pooling, &one, x, from, &b, y, to) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnPoolingBackward(dnn, pooling, &one, y, plain, y, gradient, x, from, &b, x, result) ==
          CUDNN_STATUS_SUCCESS);
  const auto close = [](const std::vector<double>& found, const std::vector<double>& expected) {
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      CHECK(std::abs(found[i] - expected[i]) <= TypeOf<T>::unit * (std::abs(expected[i]) + 1));
  };
  close(to.read(dnn.stream), blended);
  close(result.read(dnn.stream), dx);
}

}  // namespace

TEST_CASE_TEMPLATE("pooling of all kinds, with gradients, blended", T, float, double, __half, __nv_bfloat16) {
  for (const auto mode : {CUDNN_POOLING_MAX, CUDNN_POOLING_MAX_DETERMINISTIC,
                          CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING})
    for (const auto format : {CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW})
      for (const Window& w : {Window{2, 0, 2}, Window{3, 1, 1}, Window{3, 1, 2}})
        for (const double beta : {0., 0.5}) check_pooling<T>(mode, format, w, beta);
}

TEST_CASE("a NaN is propagated or passed over, as is asked") {
  Dnn dnn;
  Tensor x(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 1, 2, 2), y(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 1, 1, 1);
  TypedValues<float> from({1, std::nan(""), 3, 2}), to({0}), gradient({4}), dx(std::vector<double>(4));
  const float one = 1, zero = 0;
  for (const auto nan : {CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN}) {
    Pooling pooling;
    cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, nan, 2, 2, 0, 0, 2, 2);
    REQUIRE(cudnnPoolingForward(dnn, pooling, &one, x, from, &zero, y, to) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnPoolingBackward(dnn, pooling, &one, y, to, y, gradient, x, from, &zero, x, dx) ==
            CUDNN_STATUS_SUCCESS);
    const double found = to.read(dnn.stream)[0];
    CHECK((nan == CUDNN_PROPAGATE_NAN ? std::isnan(found) : found == 3));
    const std::vector<double> first{0, 4, 0, 0}, largest{0, 0, 4, 0};
    CHECK(dx.read(dnn.stream) == (nan == CUDNN_PROPAGATE_NAN ? first : largest));
  }
}

TEST_CASE("pooling refuses what doesn't go together") {
  Dnn dnn;
  Pooling pooling, unset;
  const auto set = [&](cudnnPoolingMode_t mode, int size, int pad, int stride) {
    return cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_NOT_PROPAGATE_NAN, size, size, pad, pad, stride, stride);
  };
  CHECK(set(CUDNN_POOLING_MAX, 0, 0, 2) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(CUDNN_POOLING_MAX, 2, 0, 0) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(CUDNN_POOLING_MAX, 2, -1, 2) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(cudnnPoolingMode_t(9), 2, 0, 2) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set(CUDNN_POOLING_MAX, 2, 0, 2) == CUDNN_STATUS_SUCCESS);
  Tensor x(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 4, 4), y(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 2, 2);
  Tensor y_chw(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 2, 2),
      y_wide(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 2, 3);
  Tensor y_half(CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 1, 2, 2, 2);
  DeviceValues<float> a(32), b(32), c(32), d(32);
  const float one = 1;
  const auto forward = [&](cudnnPoolingDescriptor_t p, cudnnTensorDescriptor_t to, const void* data) {
    return cudnnPoolingForward(dnn, p, &one, x, data, &one, to, b);
  };
  CHECK(forward(pooling, y_wide, a) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(pooling, y_half, a) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(unset, y, a) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(pooling, y, nullptr) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnPoolingBackward(dnn, pooling, &one, y, a, y_chw, b, x, c, &one, x, d) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(set(CUDNN_POOLING_MAX, 2, 2, 2) == CUDNN_STATUS_SUCCESS);  // windows that lie in the padding
  CHECK(forward(pooling, y, a) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE_TEMPLATE("ReLU and its gradient, also in place, blended", T, float, double, __half, __nv_bfloat16) {
  Dnn dnn;
  Activation relu;
  REQUIRE(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0) ==
          CUDNN_STATUS_SUCCESS);
  const Sizes s{2, 3, 4, 5};
  Tensor t(CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, s.n, s.c, s.h, s.w);
  const auto x = quarters(s.elements(), 5), dy = quarters(s.elements(), 6), old = quarters(s.elements(), 7);
  const typename TypeOf<T>::Scale two = 2, half = 0.5, zero = 0;
  std::vector<double> y, blended, dx;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(std::max(2 * x[i], 0.));
    blended.push_back(y[i] + 0.5 * old[i]);
    dx.push_back((x[i] > 0 ? 2 * dy[i] : 0) + 0.5 * old[i]);
  }
  TypedValues<T> from(x), to(old), gradient(dy), result(old), in_place(x), output(y);
  REQUIRE(cudnnActivationForward(dnn, relu, &two, t, from, &half, t, to) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnActivationForward(dnn, relu, &two, t, in_place, &zero, t, in_place) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnActivationBackward(dnn, relu, &two, t, output, t, gradient, t, output, &half, t, result) ==
          CUDNN_STATUS_SUCCESS);
  CHECK(to.read(dnn.stream) == blended);
  CHECK(in_place.read(dnn.stream) == y);
  CHECK(result.read(dnn.stream) == dx);
  REQUIRE(cudnnActivationBackward(dnn, relu, &two, t, output, t, gradient, t, output, &zero, t, gradient) ==
          CUDNN_STATUS_SUCCESS);
  for (size_t i = 0; i < dx.size(); ++i) dx[i] -= 0.5 * old[i];
  CHECK(gradient.read(dnn.stream) == dx);
}

TEST_CASE("other activations, and tensors that differ, are refused") {
  Dnn dnn;
  Activation a;
  CHECK(cudnnSetActivationDescriptor(a, cudnnActivationMode_t(50), CUDNN_NOT_PROPAGATE_NAN, 0) ==
        CUDNN_STATUS_BAD_PARAM);
  Tensor t(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 2, 2), chw(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 2, 2);
  Tensor wide(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 2, 3);
  TypedValues<float> x(quarters(16, 1)), y(quarters(16, 2)), dy(quarters(16, 3)), dx(quarters(16, 4));
  const float one = 1, zero = 0;
  const auto forward = [&](cudnnTensorDescriptor_t to, void* data) {
    return cudnnActivationForward(dnn, a, &one, t, x, &zero, to, data);
  };
  CHECK(forward(t, y) == CUDNN_STATUS_BAD_PARAM);  // not set
  for (const auto mode : {CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_IDENTITY}) {
    REQUIRE(cudnnSetActivationDescriptor(a, mode, CUDNN_NOT_PROPAGATE_NAN, 0) == CUDNN_STATUS_SUCCESS);
    CHECK(forward(t, y) == CUDNN_STATUS_NOT_SUPPORTED);
  }
  REQUIRE(cudnnSetActivationDescriptor(a, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0) == CUDNN_STATUS_SUCCESS);
  CHECK(forward(wide, y) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(forward(chw, x) == CUDNN_STATUS_BAD_PARAM);  // in place, with other strides
  CHECK(forward(chw, y) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnActivationBackward(dnn, a, &one, t, y, chw, dy, t, x, &zero, t, dx) == CUDNN_STATUS_BAD_PARAM);
  dnn.stream.wait();
}

TEST_CASE("fault: pooling over its own input" * doctest::skip()) {
  Dnn dnn;
  Pooling pooling;
  cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2);
  Tensor x(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 4, 4), y(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 2, 2, 2);
  DeviceValues<float> a(32);
  const float one = 1, zero = 0;
  cudnnPoolingForward(dnn, pooling, &one, x, a, &zero, y, a);
}
TEST_CASE("use that real hardware would corrupt on ends the process") {
  check_fault("fault: pooling over its own input", "cudnnPoolingForward: y overlaps x");
}
