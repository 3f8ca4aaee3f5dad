// cuDNN's batch normalisation and sums for biases against plain loops in double, and what they refuse.
#include <doctest/doctest.h>

#include <cmath>

#include "cudnn_objects.h"
#include "refusals.h"

using namespace simgpu_test;

namespace {

constexpr Sizes kX{3, 4, 2, 5};
constexpr double kEpsilon = 1e-3;
constexpr double kRows = 3 * 2 * 5;

struct Expected {
  std::vector<double> mean = std::vector<double>(4), variance = mean, y, dx, dscale = mean, dbias = mean;
};

/// Of x in NHWC; dy after the ReLU's mask.
Expected reference(const std::vector<double>& x, const std::vector<double>& scale, const std::vector<double>& bias,
                   const std::vector<double>& dy) {
  Expected e;
  for (size_t i = 0; i < x.size(); ++i) e.mean[i % 4] += x[i] / kRows;
  for (size_t i = 0; i < x.size(); ++i) e.variance[i % 4] += std::pow(x[i] - e.mean[i % 4], 2) / kRows;
  const auto normalized = [&](size_t i) { return (x[i] - e.mean[i % 4]) / std::sqrt(e.variance[i % 4] + kEpsilon); };
  for (size_t i = 0; i < x.size(); ++i) {
    e.y.push_back(normalized(i) * scale[i % 4] + bias[i % 4]);
    e.dscale[i % 4] += dy[i] * normalized(i);
    e.dbias[i % 4] += dy[i];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % 4;
    e.dx.push_back(scale[c] / std::sqrt(e.variance[c] + kEpsilon) *
                   (dy[i] - (e.dbias[c] + normalized(i) * e.dscale[c]) / kRows));
  }
  return e;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected, double unit) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) <= unit * (4 + std::abs(expected[i])));
}

/// The values of a call of batch normalisation on the device.
template <class T>
struct Case {
  using Parameter = typename TypeOf<T>::Scale;
  Dnn dnn;
  Tensor t{CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, kX.n, kX.c, kX.h, kX.w}, parameters;
  Activation relu;
  std::vector<double> x = quarters(kX.elements(), 1), dy = quarters(kX.elements(), 2), z = quarters(kX.elements(), 3);
  std::vector<double> scale{1.5, 0.5, -1, 2}, bias{0.25, -0.5, 1, 0}, old{10, 20, 30, 40};
  TypedValues<T> x_data{x}, dy_data{dy}, z_data{z};
  DeviceValues<T> y_data{kX.elements()}, dx_data{kX.elements()}, dz_data{kX.elements()};
  TypedValues<Parameter> scale_data{scale}, bias_data{bias}, running_mean{old}, running_variance{old};
  DeviceValues<Parameter> saved_mean{4}, saved_inverse{4}, dscale{4}, dbias{4};
  Parameter one = 1, zero = 0, half = 0.5;

  Case() {
    REQUIRE(cudnnDeriveBNTensorDescriptor(parameters, t, CUDNN_BATCHNORM_SPATIAL) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0) ==
            CUDNN_STATUS_SUCCESS);
  }
  cudnnStatus_t train(cudnnBatchNormMode_t mode, double factor) {
    return cudnnBatchNormalizationForwardTraining(dnn, mode, &one, &zero, t, x_data, t, y_data, parameters, scale_data,
                                                  bias_data, factor, running_mean, running_variance, kEpsilon,
                                                  saved_mean, saved_inverse);
  }
  cudnnStatus_t differentiate(cudnnBatchNormMode_t mode, const void* mean, const void* inverse,
                              const void* beta_parameters) {
    return cudnnBatchNormalizationBackward(dnn, mode, &one, &zero, &one, beta_parameters, t, x_data, t, dy_data, t,
                                           dx_data, parameters, scale_data, dscale, dbias, kEpsilon, mean, inverse);
  }
  Expected expected() const { return reference(x, scale, bias, dy); }
  // Of doubles, the reference's own sums of 30 terms are the less exact ones.
  static constexpr double sums = std::is_same_v<T, double> ? 30 : 1;
  static constexpr double unit = sums * TypeOf<T>::unit, parameter_unit = sums * TypeOf<Parameter>::unit;
};

}  // namespace

TEST_CASE_TEMPLATE("batch normalisation in training, and its gradients", T, float, double, __half, __nv_bfloat16) {
  for (const auto mode : {CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_SPATIAL_PERSISTENT}) {
    Case<T> c;
    const Expected e = c.expected();
    REQUIRE(c.train(mode, 0.25) == CUDNN_STATUS_SUCCESS);
    check_close(doubles(c.y_data.values(c.dnn.stream)), e.y, c.unit);
    std::vector<double> mean, variance, inverse;
    for (size_t i = 0; i < 4; ++i) {
      mean.push_back(0.75 * c.old[i] + 0.25 * e.mean[i]);
      variance.push_back(0.75 * c.old[i] + 0.25 * e.variance[i] * kRows / (kRows - 1));  // what is kept is unbiased
      inverse.push_back(1 / std::sqrt(e.variance[i] + kEpsilon));
    }
    check_close(c.running_mean.read(c.dnn.stream), mean, c.parameter_unit);
    check_close(c.running_variance.read(c.dnn.stream), variance, c.parameter_unit);
    check_close(doubles(c.saved_mean.values(c.dnn.stream)), e.mean, c.parameter_unit);
    check_close(doubles(c.saved_inverse.values(c.dnn.stream)), inverse, c.parameter_unit);
    REQUIRE(c.differentiate(mode, c.saved_mean, c.saved_inverse, &c.zero) == CUDNN_STATUS_SUCCESS);
    check_close(doubles(c.dx_data.values(c.dnn.stream)), e.dx, c.unit);
    check_close(doubles(c.dscale.values(c.dnn.stream)), e.dscale, 4 * c.parameter_unit);
    check_close(doubles(c.dbias.values(c.dnn.stream)), e.dbias, 4 * c.parameter_unit);
    // Without the saved statistics they are found again; parameters' gradients are added to what is there.
    REQUIRE(c.differentiate(mode, nullptr, nullptr, &c.half) == CUDNN_STATUS_SUCCESS);
    check_close(doubles(c.dx_data.values(c.dnn.stream)), e.dx, c.unit);
    std::vector<double> more = e.dscale;
    for (double& d : more) d *= 1.5;
    check_close(doubles(c.dscale.values(c.dnn.stream)), more, 8 * c.parameter_unit);
  }
}

TEST_CASE("the first average takes the place of what was never set") {
  Case<float> c;
  DeviceValues<float> mean(4), variance(4);  // NaN
  REQUIRE(cudnnBatchNormalizationForwardTraining(c.dnn, CUDNN_BATCHNORM_SPATIAL, &c.one, &c.zero, c.t, c.x_data, c.t,
                                                 c.y_data, c.parameters, c.scale_data, c.bias_data, 1, mean, variance,
                                                 kEpsilon, nullptr, nullptr) == CUDNN_STATUS_SUCCESS);
  check_close(doubles(mean.values(c.dnn.stream)), c.expected().mean, c.parameter_unit);
}

TEST_CASE_TEMPLATE("inference by given statistics, in both layouts, blended", T, float, double, __half, __nv_bfloat16) {
  for (const auto format : {CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW}) {
    Case<T> c;
    Tensor t(format, TypeOf<T>::dnn, kX.n, kX.c, kX.h, kX.w);
    std::vector<double> expected(kX.elements());
    for (int n = 0; n < kX.n; ++n)
      for (int k = 0; k < kX.c; ++k)
        for (int h = 0; h < kX.h; ++h)
          for (int w = 0; w < kX.w; ++w) {
            const size_t i = kX.at(format, n, k, h, w), p = size_t(k);
            expected[i] = (c.x[i] - c.old[p]) / std::sqrt(c.old[p] + kEpsilon) * c.scale[p] + c.bias[p] + 0.5 * c.z[i];
          }
    REQUIRE(cudnnBatchNormalizationForwardInference(c.dnn, CUDNN_BATCHNORM_SPATIAL, &c.one, &c.half, t, c.x_data, t,
                                                    c.z_data, c.parameters, c.scale_data, c.bias_data, c.running_mean,
                                                    c.running_variance, kEpsilon) == CUDNN_STATUS_SUCCESS);
    check_close(c.z_data.read(c.dnn.stream), expected, c.unit);
  }
}

TEST_CASE_TEMPLATE("batch normalisation fused with a ReLU, and with an addition before it", T, float, __half,
                   __nv_bfloat16) {
  for (const auto ops : {CUDNN_BATCHNORM_OPS_BN_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION}) {
    Case<T> c;
    const bool adds = ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
    const auto mode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
    const cudnnTensorDescriptor_t z = adds ? cudnnTensorDescriptor_t(c.t) : nullptr;
    size_t forward_bytes = 0, backward_bytes = 0, reserve_bytes = 0;
    REQUIRE(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(c.dnn, mode, ops, c.t, z, c.t, c.parameters,
                                                                     c.relu, &forward_bytes) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnGetBatchNormalizationBackwardExWorkspaceSize(c.dnn, mode, ops, c.t, c.t, c.t, z, c.t, c.parameters,
                                                              c.relu, &backward_bytes) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(c.dnn, mode, ops, c.relu, c.t, &reserve_bytes) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(forward_bytes > 0);
    REQUIRE(reserve_bytes > 0);
    DeviceValues<char> workspace(std::max(forward_bytes, backward_bytes)), reserve(reserve_bytes);
    const auto forward = [&](size_t w, size_t r) {
      return cudnnBatchNormalizationForwardTrainingEx(
          c.dnn, mode, ops, &c.one, &c.zero, c.t, c.x_data, z, adds ? static_cast<T*>(c.z_data) : nullptr, c.t,
          c.y_data, c.parameters, c.scale_data, c.bias_data, 0.25, c.running_mean, c.running_variance, kEpsilon,
          c.saved_mean, c.saved_inverse, c.relu, workspace, w, reserve, r);
    };
    CHECK(forward(forward_bytes - 1, reserve_bytes) == CUDNN_STATUS_BAD_PARAM);
    CHECK(forward(forward_bytes, reserve_bytes - 1) == CUDNN_STATUS_BAD_PARAM);
    REQUIRE(forward(forward_bytes, reserve_bytes) == CUDNN_STATUS_SUCCESS);
    Expected e = c.expected();
    std::vector<double> masked = c.dy;
    for (size_t i = 0; i < e.y.size(); ++i) {
      if (adds) e.y[i] += c.z[i];
      if (!(e.y[i] > 0)) e.y[i] = masked[i] = 0;
    }
    check_close(doubles(c.y_data.values(c.dnn.stream)), e.y, c.unit);
    REQUIRE(cudnnBatchNormalizationBackwardEx(c.dnn, mode, ops, &c.one, &c.zero, &c.one, &c.zero, c.t, c.x_data, c.t,
                                              c.y_data, c.t, c.dy_data, z, adds ? static_cast<T*>(c.dz_data) : nullptr,
                                              c.t, c.dx_data, c.parameters, c.scale_data, c.bias_data, c.dscale,
                                              c.dbias, kEpsilon, c.saved_mean, c.saved_inverse, c.relu, workspace,
                                              backward_bytes, reserve, reserve_bytes) == CUDNN_STATUS_SUCCESS);
    const Expected g = reference(c.x, c.scale, c.bias, masked);
    check_close(doubles(c.dx_data.values(c.dnn.stream)), g.dx, c.unit);
    check_close(doubles(c.dscale.values(c.dnn.stream)), g.dscale, 4 * c.parameter_unit);
    check_close(doubles(c.dbias.values(c.dnn.stream)), g.dbias, 4 * c.parameter_unit);
    if (adds) CHECK(doubles(c.dz_data.values(c.dnn.stream)) == masked);
  }
}

TEST_CASE("fusion is for one mode, layout and activation, and for channels in multiples of 4") {
  Case<float> c;
  Case<double> d;
  size_t bytes = 0;
  const auto ask = [&](cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnActivationDescriptor_t activation,
                       cudnnTensorDescriptor_t t) {
    return cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, mode, CUDNN_BATCHNORM_OPS_BN_ACTIVATION,
                                                                activation, t, &bytes);
  };
  const auto persistent = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
  Tensor chw(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 3, 4, 2, 5), odd(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 3, 6, 2, 5);
  Activation sigmoid;
  cudnnSetActivationDescriptor(sigmoid, CUDNN_ACTIVATION_SIGMOID, CUDNN_NOT_PROPAGATE_NAN, 0);
  CHECK(ask(c.dnn, persistent, c.relu, c.t) == CUDNN_STATUS_SUCCESS);
  CHECK(ask(c.dnn, CUDNN_BATCHNORM_SPATIAL, c.relu, c.t) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(ask(c.dnn, persistent, c.relu, chw) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(ask(c.dnn, persistent, c.relu, odd) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(ask(c.dnn, persistent, sigmoid, c.t) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(ask(c.dnn, persistent, nullptr, c.t) == CUDNN_STATUS_BAD_PARAM);
  CHECK(ask(d.dnn, persistent, d.relu, d.t) == CUDNN_STATUS_NOT_SUPPORTED);
  // Unfused, the same call is the plain one.
  CHECK(cudnnBatchNormalizationForwardTrainingEx(c.dnn, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN, &c.one,
                                                 &c.zero, c.t, c.x_data, nullptr, nullptr, c.t, c.y_data, c.parameters,
                                                 c.scale_data, c.bias_data, 1, nullptr, nullptr, kEpsilon, nullptr,
                                                 nullptr, nullptr, nullptr, 0, nullptr, 0) == CUDNN_STATUS_SUCCESS);
  check_close(doubles(c.y_data.values(c.dnn.stream)), c.expected().y, c.unit);
}

TEST_CASE("batch normalisation refuses what doesn't go together") {
  Case<__half> c;
  const auto train = [&](cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t parameters, double epsilon, void* mean,
                         void* variance) {
    return cudnnBatchNormalizationForwardTraining(c.dnn, CUDNN_BATCHNORM_SPATIAL, &c.one, &c.zero, c.t, c.x_data, y,
                                                  c.y_data, parameters, c.scale_data, c.bias_data, 1, mean, variance,
                                                  epsilon, nullptr, nullptr);
  };
  Tensor chw(CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 3, 4, 2, 5), halves(CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 1, 4, 1, 1);
  Tensor five(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 5, 1, 1);
  CHECK(train(chw, c.parameters, kEpsilon, nullptr, nullptr) == CUDNN_STATUS_BAD_PARAM);
  CHECK(train(c.t, halves, kEpsilon, nullptr, nullptr) == CUDNN_STATUS_BAD_PARAM);  // floats, for tensors of halves
  CHECK(train(c.t, five, kEpsilon, nullptr, nullptr) == CUDNN_STATUS_BAD_PARAM);
  CHECK(train(c.t, c.parameters, -1e-5, nullptr, nullptr) == CUDNN_STATUS_BAD_PARAM);
  CHECK(train(c.t, c.parameters, kEpsilon, c.running_mean, nullptr) == CUDNN_STATUS_BAD_PARAM);
  CHECK(c.train(CUDNN_BATCHNORM_PER_ACTIVATION, 1) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(c.train(cudnnBatchNormMode_t(8), 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(c.differentiate(CUDNN_BATCHNORM_SPATIAL, c.saved_mean, nullptr, &c.zero) == CUDNN_STATUS_BAD_PARAM);
  Tensor derived;
  CHECK(cudnnDeriveBNTensorDescriptor(derived, c.t, cudnnBatchNormMode_t(8)) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE_TEMPLATE("a bias added to a tensor", T, float, double, __half, __nv_bfloat16) {
  Case<T> c;
  Tensor b(CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, 1, 4, 1, 1), wide(CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, 1, 4, 1, 3);
  TypedValues<T> bias(c.bias);
  REQUIRE(cudnnAddTensor(c.dnn, &c.half, b, bias, &c.one, c.t, c.x_data) == CUDNN_STATUS_SUCCESS);
  std::vector<double> expected = c.x;
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += 0.5 * c.bias[i % 4];
  CHECK(c.x_data.read(c.dnn.stream) == expected);
  CHECK(cudnnAddTensor(c.dnn, &c.half, wide, bias, &c.one, c.t, c.x_data) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE_TEMPLATE("a bias's gradient, added to what is there", T, float, double, __half) {
  Case<T> c;
  Tensor b(CUDNN_TENSOR_NHWC, TypeOf<T>::dnn, 1, 4, 1, 1);
  TypedValues<T> db(c.old);
  REQUIRE(cudnnConvolutionBackwardBias(c.dnn, &c.one, c.t, c.dy_data, &c.half, b, db) == CUDNN_STATUS_SUCCESS);
  std::vector<double> expected = c.expected().dbias;
  for (size_t i = 0; i < 4; ++i) expected[i] += 0.5 * c.old[i];
  CHECK(db.read(c.dnn.stream) == expected);
}

TEST_CASE("a bias's gradient of bf16 is refused") {
  Case<__nv_bfloat16> c;
  Tensor b(CUDNN_TENSOR_NHWC, CUDNN_DATA_BFLOAT16, 1, 4, 1, 1);
  TypedValues<__nv_bfloat16> db(c.old);
  CHECK(cudnnConvolutionBackwardBias(c.dnn, &c.one, c.t, c.dy_data, &c.half, b, db) == CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_CASE("fault: batch normalisation in place" * doctest::skip()) {
  Case<float> c;
  cudnnBatchNormalizationForwardTraining(c.dnn, CUDNN_BATCHNORM_SPATIAL, &c.one, &c.zero, c.t, c.x_data, c.t, c.x_data,
                                         c.parameters, c.scale_data, c.bias_data, 1, nullptr, nullptr, kEpsilon,
                                         nullptr, nullptr);
}
TEST_CASE("use that real hardware would corrupt on ends the process") {
  check_fault("fault: batch normalisation in place", "cudnnBatchNormalizationForwardTraining: y overlaps x");
}
