// cuDNN's convolutions: numbers against plain loops, for all passes, types and layouts.
#include <doctest/doctest.h>

#include "cudnn_convolution_case.h"

using namespace simgpu_test;

TEST_CASE_TEMPLATE("convolutions in NHWC, all passes, blended", T, float, __half, __nv_bfloat16) {
  const ConvolutionShape shapes[] = {kPlainConvolution,
                                     {{2, 3, 7, 5}, 5, 3, 2, 2, 2, 1, 1},
                                     {{1, 4, 6, 6}, 8, 1, 1, 0, 1, 1, 2},
                                     {{2, 6, 5, 5}, 6, 3, 3, 1, 1, 1, 6},
                                     {{2, 4, 6, 7}, 4, 3, 3, 1, 1, 1, 1, CUDNN_TENSOR_NHWC, CUDNN_CONVOLUTION}};
  for (const ConvolutionShape& shape : shapes)
    for (const double beta : {0., 0.5}) {
      for (const int algorithm :
           {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM}) {
        ConvolutionCase<T> c(shape);
        c.alpha = 2;
        c.beta = typename TypeOf<T>::Scale(beta);
        c.check(ConvolutionPass::forward, algorithm);
      }
      for (const int algorithm : {0, 1}) {
        ConvolutionCase<T> data(shape), filter(shape);
        data.beta = filter.beta = typename TypeOf<T>::Scale(beta);
        data.check(ConvolutionPass::data, algorithm);
        filter.check(ConvolutionPass::filter, algorithm);
      }
    }
}

TEST_CASE_TEMPLATE("convolutions in NCHW, also of doubles", T, float, double, __half, __nv_bfloat16) {
  ConvolutionShape shape{{2, 4, 6, 7}, 6, 3, 3, 1, 2, 1, 2, CUDNN_TENSOR_NCHW};
  for (const int algorithm : {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM})
    ConvolutionCase<T>(shape).check(ConvolutionPass::forward, algorithm);
  for (const int algorithm : {0, 1}) ConvolutionCase<T>(shape).check(ConvolutionPass::data, algorithm);
  for (const int algorithm : {0, 1, 3}) ConvolutionCase<T>(shape).check(ConvolutionPass::filter, algorithm);
}

TEST_CASE("dilated filters, by the algorithms that take them") {
  const ConvolutionShape shape{{1, 3, 9, 8}, 4, 3, 2, 2, 1, 2, 1};
  ConvolutionCase<float>(shape).check(ConvolutionPass::forward, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
  ConvolutionCase<float>(shape).check(ConvolutionPass::data, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0);
  ConvolutionCase<float>(shape).check(ConvolutionPass::filter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0);
  ConvolutionCase<float> c(shape);
  CHECK(c.forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(c.backward_data(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(c.backward_filter(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("tensors with gaps") {
  Dnn dnn;
  const ConvolutionShape shape{{2, 3, 4, 5}, 2, 3, 3, 0, 1, 1, 1, CUDNN_TENSOR_NCHW};
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
  const auto expected = convolved(shape, ConvolutionPass::forward, dense, filter), found = dy.read(dnn.stream);
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
  const ConvolutionShape one_by_one{{1, 1, 1, 4}, 1, 1, 1, 0, 1, 1, 1};
  for (const auto type : {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH}) {
    ConvolutionCase<float> c(one_by_one);
    REQUIRE(cudnnSetConvolutionMathType(c.convolution, type) == CUDNN_STATUS_SUCCESS);
    const std::vector<double> x{1 + 1. / 1024, 1 + 1. / 4096, 1 + 1. / 2048, 1 + 3. / 4096};
    TypedValues<float> from(x), filter({1}), to(std::vector<double>(4));
    REQUIRE(c.forward(0, from, filter, to, nullptr, 0) == CUDNN_STATUS_SUCCESS);
    CHECK(to.read(c.dnn.stream) ==
          (type == CUDNN_FMA_MATH ? x : std::vector<double>{1 + 1. / 1024, 1, 1, 1 + 1. / 1024}));
  }
  ConvolutionCase<float> c(one_by_one);
  REQUIRE(cudnnSetConvolutionMathType(c.convolution, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) == CUDNN_STATUS_SUCCESS);
  CHECK(c.forward(0) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("gradients by algorithms that aren't deterministic differ from run to run, the others don't") {
  const ConvolutionShape shape{{4, 3, 8, 8}, 4, 3, 3, 1, 1, 1, 1};
  const auto thirds = [](size_t n) {
    std::vector<double> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = 1. / double(3 + i % 101);
    return v;
  };
  for (const int algorithm : {0, 1}) {
    ConvolutionCase<float> c(shape);
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
      ConvolutionCase<T> c(kPlainConvolution);
      const auto bias = quarters(size_t(kPlainConvolution.k), 6), z = quarters(kPlainConvolution.y().elements(), 7);
      TypedValues<T> dbias(bias), dz(z);
      Tensor b(CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, 1, kPlainConvolution.k, 1, 1);
      Activation activation;
      REQUIRE(cudnnSetActivationDescriptor(activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0) == CUDNN_STATUS_SUCCESS);
      const float one = 1, with_z = float(alpha2);
      const auto run = [&](int algorithm) {
        return cudnnConvolutionBiasActivationForward(
            c.dnn, &one, c.x, c.dx, c.w, c.dw, c.convolution, cudnnConvolutionFwdAlgo_t(algorithm), c.workspace,
            c.workspace.bytes(), &with_z, c.y, dz, b, dbias, activation, c.y, c.dy);
      };
      REQUIRE(run(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) == CUDNN_STATUS_SUCCESS);
      auto expected = convolved(kPlainConvolution, ConvolutionPass::forward, c.x_values, c.w_values);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] += alpha2 * z[i] + bias[i % size_t(kPlainConvolution.k)];
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
