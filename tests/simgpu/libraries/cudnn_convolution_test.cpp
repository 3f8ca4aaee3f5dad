// cuDNN's convolutions: numbers against plain loops in double, algorithms, and everything that is refused.
#include <doctest/doctest.h>

#include <cstring>

#include "cudnn_objects.h"
#include "refusals.h"

using namespace simgpu_test;

namespace {

struct Shape {
  Sizes x;
  int k, r, s, pad, stride, dilation, groups;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

  Sizes w() const { return {k, x.c / groups, r, s}; }
  Sizes y() const {
    const auto out = [&](int n, int window) { return (n + 2 * pad - dilation * (window - 1) - 1) / stride + 1; };
    return {x.n, k, out(x.h, r), out(x.w, s)};
  }
};

enum class Pass { forward, data, filter };

/// The sums of one pass; the two operands are those that the pass reads, in the order x, w, y.
std::vector<double> reference(const Shape& t, Pass pass, const std::vector<double>& first,
                              const std::vector<double>& second) {
  const Sizes w = t.w(), y = t.y();
  std::vector<double> result((pass == Pass::forward ? y : pass == Pass::data ? t.x : w).elements());
  for (int n = 0; n < y.n; ++n)
    for (int k = 0; k < y.c; ++k)
      for (int p = 0; p < y.h; ++p)
        for (int q = 0; q < y.w; ++q)
          for (int c = 0; c < w.c; ++c)
            for (int r = 0; r < w.h; ++r)
              for (int s = 0; s < w.w; ++s) {
                const bool turn = t.mode == CUDNN_CONVOLUTION;
                const int ih = p * t.stride - t.pad + r * t.dilation, iw = q * t.stride - t.pad + s * t.dilation;
                if (ih < 0 || ih >= t.x.h || iw < 0 || iw >= t.x.w) continue;
                const int channel = k / (t.k / t.groups) * w.c + c;
                const size_t ix = t.x.at(t.format, n, channel, ih, iw), iy = y.at(t.format, n, k, p, q);
                const size_t filter = w.at(t.format, k, c, turn ? w.h - 1 - r : r, turn ? w.w - 1 - s : s);
                if (pass == Pass::forward) result[iy] += first[ix] * second[filter];
                if (pass == Pass::data) result[ix] += first[filter] * second[iy];
                if (pass == Pass::filter) result[filter] += first[ix] * second[iy];
              }
  return result;
}

/// A convolution's descriptors and values on the device.
template <class T>
struct Case {
  Shape shape;
  Dnn dnn;
  Tensor x{shape.format, TypeOf<T>::dnn, shape.x.n, shape.x.c, shape.x.h, shape.x.w};
  Filter w{shape.format, TypeOf<T>::dnn, shape.k, shape.w().c, shape.r, shape.s};
  Convolution convolution;
  Tensor y{shape.format, TypeOf<T>::dnn, shape.y().n, shape.y().c, shape.y().h, shape.y().w};
  std::vector<double> x_values = quarters(shape.x.elements(), 1), w_values = quarters(shape.w().elements(), 2),
                      y_values = quarters(shape.y().elements(), 3);
  TypedValues<T> dx{x_values}, dw{w_values}, dy{y_values};
  DeviceValues<char> workspace{1 << 20};
  typename TypeOf<T>::Scale alpha = 1, beta = 0;

  explicit Case(const Shape& s) : shape(s) {
    constexpr auto compute = std::is_same_v<T, double> ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    REQUIRE(cudnnSetConvolution2dDescriptor(convolution, s.pad, s.pad, s.stride, s.stride, s.dilation, s.dilation,
                                            s.mode, compute) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetConvolutionGroupCount(convolution, s.groups) == CUDNN_STATUS_SUCCESS);
  }

  cudnnStatus_t forward(int algorithm) { return forward(algorithm, dx, dw, dy, workspace, workspace.bytes()); }
  cudnnStatus_t forward(int algorithm, const void* from, const void* filter, void* to, void* w_data, size_t bytes) {
    return cudnnConvolutionForward(dnn, &alpha, x, from, w, filter, convolution, cudnnConvolutionFwdAlgo_t(algorithm),
                                   w_data, bytes, &beta, y, to);
  }
  cudnnStatus_t backward_data(int algorithm) {
    return cudnnConvolutionBackwardData(dnn, &alpha, w, dw, y, dy, convolution,
                                        cudnnConvolutionBwdDataAlgo_t(algorithm), workspace, workspace.bytes(), &beta,
                                        x, dx);
  }
  cudnnStatus_t backward_filter(int algorithm) {
    return cudnnConvolutionBackwardFilter(dnn, &alpha, x, dx, y, dy, convolution,
                                          cudnnConvolutionBwdFilterAlgo_t(algorithm), workspace, workspace.bytes(),
                                          &beta, w, dw);
  }

  /// Runs the pass and compares with the reference, blended with what the result held.
  void check(Pass pass, int algorithm) {
    const auto& before = pass == Pass::forward ? y_values : pass == Pass::data ? x_values : w_values;
    auto expected = pass == Pass::forward ? reference(shape, pass, x_values, w_values)
                    : pass == Pass::data  ? reference(shape, pass, w_values, y_values)
                                          : reference(shape, pass, x_values, y_values);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = double(alpha) * expected[i] + double(beta) * before[i];
    REQUIRE((pass == Pass::forward ? forward(algorithm)
             : pass == Pass::data  ? backward_data(algorithm)
                                   : backward_filter(algorithm)) == CUDNN_STATUS_SUCCESS);
    const auto& result = pass == Pass::forward ? dy : pass == Pass::data ? dx : dw;
    CHECK(result.read(dnn.stream) == as<T>(expected));
  }
};

const Shape kPlain{{2, 4, 6, 7}, 6, 3, 3, 1, 1, 1, 1};

}  // namespace

TEST_CASE_TEMPLATE("convolutions in NHWC, all passes, blended", T, float, __half, __nv_bfloat16) {
  const Shape shapes[] = {kPlain,
                          {{2, 3, 7, 5}, 5, 3, 2, 2, 2, 1, 1},
                          {{1, 4, 6, 6}, 8, 1, 1, 0, 1, 1, 2},
                          {{2, 6, 5, 5}, 6, 3, 3, 1, 1, 1, 6},
                          {{2, 4, 6, 7}, 4, 3, 3, 1, 1, 1, 1, CUDNN_TENSOR_NHWC, CUDNN_CONVOLUTION}};
  for (const Shape& shape : shapes)
    for (const double beta : {0., 0.5}) {
      for (const int algorithm :
           {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM}) {
        Case<T> c(shape);
        c.alpha = 2;
        c.beta = typename TypeOf<T>::Scale(beta);
        c.check(Pass::forward, algorithm);
      }
      for (const int algorithm : {0, 1}) {
        Case<T> data(shape), filter(shape);
        data.beta = filter.beta = typename TypeOf<T>::Scale(beta);
        data.check(Pass::data, algorithm);
        filter.check(Pass::filter, algorithm);
      }
    }
}

TEST_CASE_TEMPLATE("convolutions in NCHW, also of doubles", T, float, double, __half, __nv_bfloat16) {
  Shape shape{{2, 4, 6, 7}, 6, 3, 3, 1, 2, 1, 2, CUDNN_TENSOR_NCHW};
  for (const int algorithm : {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM})
    Case<T>(shape).check(Pass::forward, algorithm);
  for (const int algorithm : {0, 1}) Case<T>(shape).check(Pass::data, algorithm);
  for (const int algorithm : {0, 1, 3}) Case<T>(shape).check(Pass::filter, algorithm);
}

TEST_CASE("dilated filters, by the algorithms that take them") {
  const Shape shape{{1, 3, 9, 8}, 4, 3, 2, 2, 1, 2, 1};
  Case<float>(shape).check(Pass::forward, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  Case<float>(shape).check(Pass::data, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0);
  Case<float>(shape).check(Pass::filter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0);
  Case<float> c(shape);
  CHECK(c.forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(c.backward_data(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(c.backward_filter(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("tensors with gaps") {
  Dnn dnn;
  const Shape shape{{2, 3, 4, 5}, 2, 3, 3, 0, 1, 1, 1, CUDNN_TENSOR_NCHW};
  Tensor x, y;
  REQUIRE(cudnnSetTensor4dDescriptorEx(x, CUDNN_DATA_FLOAT, 2, 3, 4, 5, 3 * 4 * 8, 4 * 8, 8, 1) ==
          CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnSetTensor4dDescriptorEx(y, CUDNN_DATA_FLOAT, 2, 2, 2, 3, 2 * 2 * 4, 2 * 4, 4, 1) ==
          CUDNN_STATUS_SUCCESS);
  size_t bytes = 0;
  CHECK(cudnnGetTensorSizeInBytes(y, &bytes) == CUDNN_STATUS_SUCCESS);
  CHECK(bytes == 4 * 31);
  Filter w(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 3, 3);
  Convolution convolution;
  cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  const auto dense = quarters(shape.x.elements(), 4), filter = quarters(shape.w().elements(), 5);
  std::vector<double> spread(2 * 3 * 4 * 8, 99);
  for (size_t row = 0; row < 2 * 3 * 4; ++row)
    for (size_t i = 0; i < 5; ++i) spread[row * 8 + i] = dense[row * 5 + i];
  TypedValues<float> dx(spread), dw(filter), dy(std::vector<double>(32, 7));
  const float one = 1, zero = 0;
  REQUIRE(cudnnConvolutionForward(dnn, &one, x, dx, w, dw, convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                  nullptr, 0, &zero, y, dy) == CUDNN_STATUS_SUCCESS);
  const auto expected = reference(shape, Pass::forward, dense, filter), found = dy.read(dnn.stream);
  for (size_t row = 0; row < 8; ++row) {
    for (size_t i = 0; i < 3; ++i) CHECK(found[row * 4 + i] == expected[row * 3 + i]);
    CHECK(found[row * 4 + 3] == 7);  // the gap
  }
  // The gradients take them for dx alone.
  CHECK(cudnnConvolutionBackwardData(dnn, &one, w, dw, y, dy, convolution, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr,
                                     0, &zero, x, dx) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(cudnnConvolutionBackwardFilter(dnn, &one, x, dx, y, dy, convolution, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
                                       nullptr, 0, &zero, w, dw) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("float32 is rounded to TF32 unless the math type is FMA") {
  const Shape one_by_one{{1, 1, 1, 4}, 1, 1, 1, 0, 1, 1, 1};
  for (const auto type : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH}) {
    Case<float> c(one_by_one);
    REQUIRE(cudnnSetConvolutionMathType(c.convolution, type) == CUDNN_STATUS_SUCCESS);
    const std::vector<double> x{1 + 1. / 1024, 1 + 1. / 4096, 1 + 1. / 2048, 1 + 3. / 4096};
    TypedValues<float> from(x), filter({1}), to(std::vector<double>(4));
    REQUIRE(c.forward(0, from, filter, to, nullptr, 0) == CUDNN_STATUS_SUCCESS);
    CHECK(to.read(c.dnn.stream) ==
          (type == CUDNN_FMA_MATH ? x : std::vector<double>{1 + 1. / 1024, 1, 1, 1 + 1. / 1024}));
  }
  Case<float> c(one_by_one);
  REQUIRE(cudnnSetConvolutionMathType(c.convolution, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) == CUDNN_STATUS_SUCCESS);
  CHECK(c.forward(0) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("gradients by algorithms that aren't deterministic differ from run to run, the others don't") {
  const Shape shape{{4, 3, 8, 8}, 4, 3, 3, 1, 1, 1, 1};
  const auto thirds = [](size_t n) {
    std::vector<double> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = 1. / double(3 + i % 101);
    return v;
  };
  for (const int algorithm : {0, 1}) {
    Case<float> c(shape);
    REQUIRE(cudnnSetConvolutionMathType(c.convolution, CUDNN_FMA_MATH) == CUDNN_STATUS_SUCCESS);
    TypedValues<float> x(thirds(shape.x.elements())), y(thirds(shape.y().elements())), w(thirds(shape.w().elements()));
    std::vector<std::vector<double>> filters, datas;
    for (int i = 0; i < 3; ++i) {
      REQUIRE(cudnnConvolutionBackwardFilter(c.dnn, &c.alpha, c.x, x, c.y, y, c.convolution,
                                             cudnnConvolutionBwdFilterAlgo_t(algorithm), c.workspace,
                                             c.workspace.bytes(), &c.beta, c.w, c.dw) == CUDNN_STATUS_SUCCESS);
      filters.push_back(c.dw.read(c.dnn.stream));
      REQUIRE(cudnnConvolutionBackwardData(c.dnn, &c.alpha, c.w, w, c.y, y, c.convolution,
                                           cudnnConvolutionBwdDataAlgo_t(algorithm), c.workspace, c.workspace.bytes(),
                                           &c.beta, c.x, c.dx) == CUDNN_STATUS_SUCCESS);
      datas.push_back(c.dx.read(c.dnn.stream));
    }
    CHECK((filters[0] == filters[1] && filters[1] == filters[2]) == (algorithm == 1));
    CHECK((datas[0] == datas[1] && datas[1] == datas[2]) == (algorithm == 1));
  }
}

TEST_CASE_TEMPLATE("a convolution with a bias, an addition and a ReLU fused", T, float, __half, __nv_bfloat16) {
  for (const auto mode : {CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_IDENTITY})
    for (const double alpha2 : {0., 1.}) {
      Case<T> c(kPlain);
      const auto bias = quarters(size_t(kPlain.k), 6), z = quarters(kPlain.y().elements(), 7);
      TypedValues<T> dbias(bias), dz(z);
      Tensor b(CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, 1, kPlain.k, 1, 1);
      Activation activation;
      REQUIRE(cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0) == CUDNN_STATUS_SUCCESS);
      const float one = 1, with_z = float(alpha2);
      const auto run = [&](int algorithm) {
        return cudnnConvolutionBiasActivationForward(
            c.dnn, &one, c.x, c.dx, c.w, c.dw, c.convolution, cudnnConvolutionFwdAlgo_t(algorithm), c.workspace,
            c.workspace.bytes(), &with_z, c.y, dz, b, dbias, activation, c.y, c.dy);
      };
      REQUIRE(run(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) == CUDNN_STATUS_SUCCESS);
      auto expected = reference(kPlain, Pass::forward, c.x_values, c.w_values);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] += alpha2 * z[i] + bias[i % size_t(kPlain.k)];
        if (mode == CUDNN_ACTIVATION_RELU && expected[i] < 0) expected[i] = 0;
      }
      CHECK(c.dy.read(c.dnn.stream) == as<T>(expected));
      // The identity is for one algorithm.
      CHECK(run(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) ==
            (mode == CUDNN_ACTIVATION_RELU ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED));
      REQUIRE(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_SIGMOID, CUDNN_NOT_PROPAGATE_NAN, 0) ==
              CUDNN_STATUS_SUCCESS);
      CHECK(run(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) == CUDNN_STATUS_NOT_SUPPORTED);
      c.dnn.stream.wait();
    }
}

TEST_CASE("workspaces: told, wanted, and lost") {
  Case<float> c(kPlain);
  size_t bytes = 0;
  REQUIRE(cudnnGetConvolutionForwardWorkspaceSize(c.dnn, c.x, c.w, c.convolution, c.y,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                                  &bytes) == CUDNN_STATUS_SUCCESS);
  CHECK(bytes == 0);
  REQUIRE(cudnnGetConvolutionForwardWorkspaceSize(c.dnn, c.x, c.w, c.convolution, c.y,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                                  &bytes) == CUDNN_STATUS_SUCCESS);
  REQUIRE(bytes > 0);
  DeviceValues<char> workspace(bytes + 16);
  const auto run = [&](void* w, size_t given) {
    return c.forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, c.dx, c.dw, c.dy, w, given);
  };
  CHECK(run(workspace, bytes) == CUDNN_STATUS_SUCCESS);
  CHECK(run(workspace, bytes - 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run(nullptr, bytes) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run(workspace + 4, bytes) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(workspace.values(c.dnn.stream)[0] == char(0xff));
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(c.dnn, c.x, c.w, c.convolution, c.y, CUDNN_CONVOLUTION_FWD_ALGO_FFT,
                                                &bytes) == CUDNN_STATUS_NOT_SUPPORTED);
  REQUIRE(cudnnGetConvolutionBackwardDataWorkspaceSize(
              c.dnn, c.w, c.y, c.convolution, c.x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes) == CUDNN_STATUS_SUCCESS);
  CHECK(bytes > 0);
  REQUIRE(cudnnGetConvolutionBackwardFilterWorkspaceSize(c.dnn, c.x, c.y, c.convolution, c.w,
                                                         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                                         &bytes) == CUDNN_STATUS_SUCCESS);
  CHECK(bytes > 0);
}

TEST_CASE("advice on algorithms: the fastest first, those that can't last") {
  Case<float> c(kPlain);
  cudnnConvolutionFwdAlgoPerf_t found[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
  int most = 0, count = 0;
  REQUIRE(cudnnGetConvolutionForwardAlgorithmMaxCount(c.dnn, &most) == CUDNN_STATUS_SUCCESS);
  CHECK(most == CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
  REQUIRE(cudnnGetConvolutionForwardAlgorithm_v7(c.dnn, c.x, c.w, c.convolution, c.y, most, &count, found) ==
          CUDNN_STATUS_SUCCESS);
  REQUIRE(count == most);
  CHECK(found[0].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  CHECK(found[1].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  CHECK(found[0].time < found[1].time);
  CHECK(found[0].memory > 0);
  CHECK(found[0].determinism == CUDNN_DETERMINISTIC);
  for (int i = 2; i < count; ++i) CHECK(found[i].status == CUDNN_STATUS_NOT_SUPPORTED);

  cudnnConvolutionBwdFilterAlgoPerf_t filters[3];
  REQUIRE(cudnnGetConvolutionBackwardFilterAlgorithm_v7(c.dnn, c.x, c.y, c.convolution, c.w, 3, &count, filters) ==
          CUDNN_STATUS_SUCCESS);
  CHECK(filters[0].algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
  CHECK(filters[0].determinism == CUDNN_DETERMINISTIC);
  CHECK(filters[1].algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0);
  CHECK(filters[1].determinism == CUDNN_NON_DETERMINISTIC);
  cudnnConvolutionBwdDataAlgoPerf_t datas[1];
  REQUIRE(cudnnGetConvolutionBackwardDataAlgorithm_v7(c.dnn, c.w, c.y, c.convolution, c.x, 1, &count, datas) ==
          CUDNN_STATUS_SUCCESS);
  CHECK(count == 1);
  CHECK(datas[0].algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}

TEST_CASE("a search tries the algorithms within the workspace, and spoils the result") {
  Case<float> c(kPlain);
  cudnnConvolutionFwdAlgoPerf_t found[3];
  int count = 0;
  const auto search = [&](size_t bytes) {
    return cudnnFindConvolutionForwardAlgorithmEx(c.dnn, c.x, c.dx, c.w, c.dw, c.convolution, c.y, c.dy, 3, &count,
                                                  found, c.workspace, bytes);
  };
  REQUIRE(search(c.workspace.bytes()) == CUDNN_STATUS_SUCCESS);
  CHECK(found[0].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
  CHECK(std::isnan(c.dy.read(c.dnn.stream)[0]));
  REQUIRE(search(0) == CUDNN_STATUS_SUCCESS);
  CHECK(found[0].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  bool out_of_memory = false;
  for (int i = 1; i < count; ++i) out_of_memory |= found[i].status == CUDNN_STATUS_ALLOC_FAILED;
  CHECK(out_of_memory);
  CHECK(c.x_values == c.dx.read(c.dnn.stream));

  cudnnConvolutionBwdDataAlgoPerf_t data;
  REQUIRE(cudnnFindConvolutionBackwardDataAlgorithmEx(c.dnn, c.w, c.dw, c.y, c.dy, c.convolution, c.x, c.dx, 1, &count,
                                                      &data, c.workspace, c.workspace.bytes()) == CUDNN_STATUS_SUCCESS);
  CHECK(std::isnan(c.dx.read(c.dnn.stream)[0]));
  cudnnConvolutionBwdFilterAlgoPerf_t filter;
  REQUIRE(cudnnFindConvolutionBackwardFilterAlgorithmEx(c.dnn, c.x, c.dx, c.y, c.dy, c.convolution, c.w, c.dw, 1,
                                                        &count, &filter, c.workspace,
                                                        c.workspace.bytes()) == CUDNN_STATUS_SUCCESS);
  CHECK(std::isnan(c.dw.read(c.dnn.stream)[0]));
}

TEST_CASE("types, layouts and shapes that the library doesn't compute are refused") {
  Case<double> doubles(kPlain);  // filters of doubles in NHWC
  CHECK(doubles.forward(0) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(doubles.backward_data(0) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(doubles.backward_filter(0) == CUDNN_STATUS_NOT_SUPPORTED);

  Case<float> c(kPlain);
  CHECK(c.forward(CUDNN_CONVOLUTION_FWD_ALGO_GEMM) == CUDNN_STATUS_NOT_SUPPORTED);  // takes no filter in NHWC
  CHECK(c.forward(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(c.forward(17) == CUDNN_STATUS_BAD_PARAM);
  CHECK(c.backward_filter(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3) == CUDNN_STATUS_NOT_SUPPORTED);
  const float one = 1, zero = 0;
  const auto run = [&](cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y) {
    return cudnnConvolutionForward(c.dnn, &one, x, c.dx, w, c.dw, c.convolution,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, y, c.dy);
  };
  Tensor x_chw(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 6, 7), x_half(CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, 4, 6, 7);
  Tensor y_small(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, 6, 6, 6), unset;
  Filter narrow(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 6, 3, 3, 3),
      large(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 6, 4, 9, 9);
  CHECK(run(c.x, c.w, c.y) == CUDNN_STATUS_SUCCESS);
  CHECK(run(x_chw, c.w, c.y) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(run(x_half, c.w, c.y) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(run(c.x, c.w, y_small) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run(c.x, narrow, c.y) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run(c.x, large, c.y) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run(unset, c.w, c.y) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run(nullptr, c.w, c.y) == CUDNN_STATUS_BAD_PARAM);
  char words[200];
  cudnnGetLastErrorString(words, sizeof words);
  CHECK(std::strstr(words, "cudnnConvolutionForward"));
  REQUIRE(cudnnSetConvolutionGroupCount(c.convolution, 4) == CUDNN_STATUS_SUCCESS);  // of 6 filters
  Filter one_channel(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 6, 1, 3, 3);
  CHECK(run(c.x, one_channel, c.y) == CUDNN_STATUS_BAD_PARAM);

  Case<__half> halves(kPlain);  // accumulated in half
  REQUIRE(cudnnSetConvolution2dDescriptor(halves.convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_HALF) == CUDNN_STATUS_SUCCESS);
  CHECK(halves.forward(0) == CUDNN_STATUS_NOT_SUPPORTED);
  c.dnn.stream.wait();
}

TEST_CASE("pointers that can't be are refused") {
  Case<float> c(kPlain);
  CHECK(c.forward(0, nullptr, c.dw, c.dy, nullptr, 0) == CUDNN_STATUS_BAD_PARAM);
  CHECK(c.forward(0, c.dx, c.dw, nullptr, nullptr, 0) == CUDNN_STATUS_BAD_PARAM);
  CHECK(c.forward(0, c.dx, c.dw, c.dx, nullptr, 0) == CUDNN_STATUS_BAD_PARAM);  // in place
  CHECK(c.forward(0, reinterpret_cast<char*>(static_cast<float*>(c.dx)) + 2, c.dw, c.dy, nullptr, 0) ==
        CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  const float one = 1;
  CHECK(cudnnConvolutionForward(c.dnn, &one, c.x, c.dx, c.w, c.dw, c.convolution,
                                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, nullptr, c.y,
                                c.dy) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE("handles and streams belong to devices") {
  Case<float> c(kPlain);
  TestStream other(1);
  CHECK(c.forward(0) == CUDNN_STATUS_EXECUTION_FAILED);  // device 1 is current
  CHECK(cudnnSetStream(c.dnn, other) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  CHECK_CUDA(cudaSetDevice(0));
  CHECK(c.forward(0) == CUDNN_STATUS_SUCCESS);
  cudaStream_t stream = nullptr;
  CHECK(cudnnGetStream(c.dnn, &stream) == CUDNN_STATUS_SUCCESS);
  CHECK(stream == c.dnn.stream);
  CHECK(cudnnSetStream(nullptr, stream) == CUDNN_STATUS_BAD_PARAM);
  c.dnn.stream.wait();
}

TEST_CASE("descriptors are checked where they are set, as by the library") {
  Tensor t;
  CHECK(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 0, 1, 1, 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetTensor4dDescriptor(nullptr, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 1, 1, 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetTensor4dDescriptor(t, cudnnTensorFormat_t(7), CUDNN_DATA_FLOAT, 1, 1, 1, 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, cudnnDataType_t(77), 1, 1, 1, 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT8, 1, 1, 1, 1) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 70000, 1000, 100, 100) ==
        CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(cudnnSetTensor4dDescriptorEx(t, CUDNN_DATA_FLOAT, 2, 3, 8, 8, 0, 0, 0, 0) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, 3, 8, 9) == CUDNN_STATUS_SUCCESS);
  cudnnDataType_t type;
  int v[8];
  REQUIRE(cudnnGetTensor4dDescriptor(t, &type, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) ==
          CUDNN_STATUS_SUCCESS);
  CHECK(type == CUDNN_DATA_HALF);
  CHECK(std::vector<int>(v, v + 8) == std::vector<int>{2, 3, 8, 9, 216, 1, 27, 3});
  Convolution c;
  const auto set = [&](int pad, int stride, int dilation, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
    return cudnnSetConvolution2dDescriptor(c, pad, 0, stride, 1, dilation, 1, mode, compute);
  };
  CHECK(set(-1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(0, 0, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(0, 1, 0, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(0, 1, 1, cudnnConvolutionMode_t(4), CUDNN_DATA_FLOAT) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_BFLOAT16) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnSetConvolutionMathType(c, cudnnMathType_t(9)) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnSetConvolutionGroupCount(c, 0) == CUDNN_STATUS_BAD_PARAM);
  Filter f(CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 4, 3, 3, 3);
  CHECK(cudnnGetConvolution2dForwardOutputDim(c, t, f, v, v + 1, v + 2, v + 3) == CUDNN_STATUS_SUCCESS);
  CHECK(std::vector<int>(v, v + 4) == std::vector<int>{2, 4, 6, 7});
  CHECK(cudnnDestroyTensorDescriptor(nullptr) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("fault: a convolution whose result overlaps an operand" * doctest::skip()) {
  Case<float> c(kPlain);
  c.forward(0, c.dx, c.dw, c.dx + 4, nullptr, 0);
}
TEST_CASE("fault: a search for algorithms while a graph is captured" * doctest::skip()) {
  Case<float> c(kPlain);
  CHECK_CUDA(cudaStreamBeginCapture(c.dnn.stream, cudaStreamCaptureModeThreadLocal));
  cudnnConvolutionFwdAlgoPerf_t found;
  int count = 0;
  cudnnFindConvolutionForwardAlgorithmEx(c.dnn, c.x, c.dx, c.w, c.dw, c.convolution, c.y, c.dy, 1, &count, &found,
                                         c.workspace, c.workspace.bytes());
}
TEST_CASE("fault: a convolution without a stream" * doctest::skip()) {
  Case<float> c(kPlain);
  DnnObject<cudnnHandle_t, cudnnCreate, cudnnDestroy> bare;
  cudnnConvolutionForward(bare, &c.alpha, c.x, c.dx, c.w, c.dw, c.convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                          nullptr, 0, &c.beta, c.y, c.dy);
}

TEST_CASE("use that real hardware would corrupt on ends the process") {
  check_fault("fault: a convolution whose result overlaps an operand", "the result overlaps an operand");
  check_fault("fault: a search for algorithms while a graph is captured", "can't be timed while a graph is captured");
  check_fault("fault: a convolution without a stream", "the default stream is used");
}
