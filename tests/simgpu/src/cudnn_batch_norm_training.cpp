// Batch normalisation in training: the forward pass with its statistics and the gradients, plain and fused.
#include <algorithm>
#include <cstring>

#include "cudnn_batch_norm.h"

namespace simgpu {
namespace {

/// The arguments of both forward calls.
struct Forward {
  cudnnBatchNormMode_t mode;
  BatchNormFusion fusion;
  const void *alpha, *beta;
  cudnnTensorDescriptor_t x_descriptor;
  const void* x;
  cudnnTensorDescriptor_t z_descriptor;
  const void* z;
  cudnnTensorDescriptor_t y_descriptor;
  void* y;
  cudnnTensorDescriptor_t parameters;
  const void *scale, *bias;
  double factor;
  void *running_mean, *running_variance;
  double epsilon;
  void *saved_mean, *saved_inverse;
  cudnnActivationDescriptor_t activation;
  BatchNormBuffers buffers;
};

/// The same of the backward calls.
struct Backward {
  cudnnBatchNormMode_t mode;
  BatchNormFusion fusion;
  const void *alpha_data, *beta_data, *alpha_parameters, *beta_parameters;
  cudnnTensorDescriptor_t x_descriptor;
  const void* x;
  cudnnTensorDescriptor_t y_descriptor;
  const void* y;
  cudnnTensorDescriptor_t dy_descriptor;
  const void* dy;
  cudnnTensorDescriptor_t dz_descriptor;
  void* dz;
  cudnnTensorDescriptor_t dx_descriptor;
  void* dx;
  cudnnTensorDescriptor_t parameters;
  const void *scale, *bias;
  void *dscale, *dbias;
  double epsilon;
  const void *saved_mean, *saved_inverse;
  cudnnActivationDescriptor_t activation;
  BatchNormBuffers buffers;
};

cudnnStatus_t check_like(const char* function, const TensorDescription& x, std::initializer_list<DnnOperand> operands) {
  for (const DnnOperand& o : operands)
    if (!x.same_sizes(*o.description) || !x.same_strides(*o.description) || x.element != o.description->element)
      return refuse(CUDNN_STATUS_BAD_PARAM, "%s: %s is not like x", function, o.name);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_unblended(const char* function, const BatchNormFusion& fusion, double alpha, double beta) {
  if (!fusion.activates() || (alpha == 1 && beta == 0)) return CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: an activation with alpha %g and beta %g is not modelled", function,
                alpha, beta);
}

/// The ReLU of a sum, and a bit for each element that it lets through.
template <class C>
void activate(std::vector<C>& y, void* reserve) {
  auto* bits = static_cast<uint8_t*>(reserve);
  for (size_t i = 0; i < y.size(); ++i) {
    const uint8_t bit = uint8_t(1u << (i % 8));
    const bool passes = y[i] > 0;
    bits[i / 8] = uint8_t((i % 8 ? bits[i / 8] : 0) | (passes ? bit : 0));
    if (!passes) y[i] = 0;
  }
}

template <class C>
void mask(std::vector<C>& dy, const void* reserve) {
  const auto* bits = static_cast<const uint8_t*>(reserve);
  for (size_t i = 0; i < dy.size(); ++i)
    if (!(bits[i / 8] >> (i % 8) & 1)) dy[i] = 0;
}

/// running = (1 - factor) * running + factor * value; with factor 1 what it held is not read.
void move_average(const TensorDescription& t, void* running, const std::vector<double>& value, double factor) {
  store(t, running, value, factor, 1 - factor);
}

template <class C>
void run(const Forward& f, const TensorDescription& t, const TensorDescription& p, double alpha, double beta) {
  const std::vector<C> x = load<C>(t, f.x);
  const Statistics s = statistics(x, size_t(t.c));
  const std::vector<double> inverse = inverse_roots(s.variance, f.epsilon);
  std::vector<C> y = normalize(x, s.mean, inverse, load<C>(p, f.scale), load<C>(p, f.bias));
  if (f.fusion.adds()) {
    const std::vector<C> z = load<C>(t, f.z);
    for (size_t i = 0; i < y.size(); ++i) y[i] += z[i];
  }
  if (f.fusion.activates()) activate(y, f.buffers.reserve);
  store(t, f.y, y, alpha, beta);
  if (f.running_mean) {
    const double rows = double(x.size()) / double(t.c);
    std::vector<double> unbiased = s.variance;
    for (double& v : unbiased) v *= rows / std::max(rows - 1, 1.);
    move_average(p, f.running_mean, s.mean, f.factor);
    move_average(p, f.running_variance, unbiased, f.factor);
  }
  if (f.saved_mean) {
    store(p, f.saved_mean, s.mean, 1, 0);
    store(p, f.saved_inverse, inverse, 1, 0);
  }
  if (const size_t bytes = workspace_bytes(f.fusion, t)) std::memset(f.buffers.workspace, 0xff, bytes);
}

template <class C>
void run(const Backward& b, const TensorDescription& t, const TensorDescription& p, double alpha_data, double beta_data,
         double alpha_parameters, double beta_parameters) {
  const std::vector<C> x = load<C>(t, b.x);
  std::vector<C> dy = load<C>(t, b.dy);
  if (b.fusion.activates()) mask(dy, b.buffers.reserve);
  if (b.fusion.adds()) store(t, b.dz, dy, 1, 0);
  std::vector<double> mean, inverse;
  if (b.saved_mean) {
    mean = load<double>(p, b.saved_mean);
    inverse = load<double>(p, b.saved_inverse);
  } else {
    Statistics s = statistics(x, size_t(t.c));
    mean = std::move(s.mean);
    inverse = inverse_roots(s.variance, b.epsilon);
  }
  const BatchNormGradients<C> g = normalize_backward(x, dy, mean, inverse, load<C>(p, b.scale));
  store(t, b.dx, g.x, alpha_data, beta_data);
  store(p, b.dscale, g.scale, alpha_parameters, beta_parameters);
  store(p, b.dbias, g.bias, alpha_parameters, beta_parameters);
  if (const size_t bytes = workspace_bytes(b.fusion, t)) std::memset(b.buffers.workspace, 0xff, bytes);
}

cudnnStatus_t train(const char* function, cudnnHandle_t handle, const Forward& f) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, function);
  if (!h || !f.alpha || !f.beta) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, alpha or beta", function);
  const TensorDescription* p = tensor_descriptions().find(f.parameters, function);
  const DnnOperand x{"x", tensor_descriptions().find(f.x_descriptor, function), f.x};
  const DnnOperand y{"y", tensor_descriptions().find(f.y_descriptor, function), f.y};
  const DnnOperand z{"z", f.fusion.adds() ? tensor_descriptions().find(f.z_descriptor, function) : nullptr, f.z};
  const DnnOperand scale{"the scale", p, f.scale}, bias{"the bias", p, f.bias};
  const DnnOperand running_mean{"the running mean", p, f.running_mean};
  const DnnOperand running_variance{"the running variance", p, f.running_variance};
  const DnnOperand saved_mean{"the saved mean", p, f.saved_mean};
  const DnnOperand saved_inverse{"the saved deviation", p, f.saved_inverse};
  if (const auto status = check_operands(function, {x, y, scale, bias})) return status;
  if (f.fusion.adds())
    if (const auto status = check_operands(function, {z})) return status;
  const TensorDescription t = *x.description, tp = *p;
  if (const auto status = check_like(function, t, {y})) return status;
  if (f.fusion.adds())
    if (const auto status = check_like(function, t, {z})) return status;
  if (const auto status = check_normalization(function, f.mode, t, p, f.epsilon)) return status;
  if (const auto status = check_fusion(function, f.mode, f.fusion, t, f.activation)) return status;
  if (const auto status = check_buffers(function, f.fusion, t, f.buffers)) return status;
  const double alpha = scaling(f.alpha, t.element), beta = scaling(f.beta, t.element);
  if (const auto status = check_unblended(function, f.fusion, alpha, beta)) return status;
  if (!f.running_mean != !f.running_variance || !f.saved_mean != !f.saved_inverse)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: one of a pair of statistics is missing", function);
  check_overlap(function, y, {x, scale, bias});
  if (f.fusion.adds()) check_overlap(function, y, {z}, true);

  Operation o{.name = function, .step = [=] {
                with_compute_type(t.element, [&](auto c) { run<decltype(c)>(f, t, tp, alpha, beta); });
                return Step::done;
              }};
  reads(o, {x, scale, bias});
  if (f.fusion.adds()) reads(o, {z});
  blends(o, y, beta);
  if (f.running_mean) {
    blends(o, running_mean, 1 - f.factor);
    blends(o, running_variance, 1 - f.factor);
  }
  if (f.saved_mean) writes(o, {saved_mean, saved_inverse});
  Footprint(f.buffers.workspace, workspace_bytes(f.fusion, t)).written_by(o);
  Footprint(f.buffers.reserve, reserve_bytes(f.fusion, t)).written_by(o);
  return submit(function, *h, std::move(o));
}

cudnnStatus_t differentiate(const char* function, cudnnHandle_t handle, const Backward& b) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, function);
  if (!h || !b.alpha_data || !b.beta_data || !b.alpha_parameters || !b.beta_parameters)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, alpha or beta", function);
  const TensorDescription* p = tensor_descriptions().find(b.parameters, function);
  const DnnOperand x{"x", tensor_descriptions().find(b.x_descriptor, function), b.x};
  const DnnOperand dy{"dy", tensor_descriptions().find(b.dy_descriptor, function), b.dy};
  const DnnOperand dx{"dx", tensor_descriptions().find(b.dx_descriptor, function), b.dx};
  const DnnOperand y{"y", b.fusion.activates() ? tensor_descriptions().find(b.y_descriptor, function) : nullptr, b.y};
  const DnnOperand dz{"dz", b.fusion.adds() ? tensor_descriptions().find(b.dz_descriptor, function) : nullptr, b.dz};
  const DnnOperand scale{"the scale", p, b.scale}, bias{"the bias", p, b.bias};
  const DnnOperand dscale{"the scale's gradient", p, b.dscale}, dbias{"the bias's gradient", p, b.dbias};
  const DnnOperand mean{"the saved mean", p, b.saved_mean}, inverse{"the saved deviation", p, b.saved_inverse};
  if (const auto status = check_operands(function, {x, dy, dx, scale, dscale, dbias})) return status;
  if (b.fusion.activates())
    if (const auto status = check_operands(function, {y, bias})) return status;
  if (b.fusion.adds())
    if (const auto status = check_operands(function, {dz})) return status;
  const TensorDescription t = *x.description, tp = *p;
  if (const auto status = check_like(function, t, {dy, dx})) return status;
  if (b.fusion.activates())
    if (const auto status = check_like(function, t, {y})) return status;
  if (b.fusion.adds())
    if (const auto status = check_like(function, t, {dz})) return status;
  if (const auto status = check_normalization(function, b.mode, t, p, b.epsilon)) return status;
  if (const auto status = check_fusion(function, b.mode, b.fusion, t, b.activation)) return status;
  if (const auto status = check_buffers(function, b.fusion, t, b.buffers)) return status;
  if (!b.saved_mean != !b.saved_inverse)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: one of the saved statistics is missing", function);
  const double alpha_data = scaling(b.alpha_data, t.element), beta_data = scaling(b.beta_data, t.element);
  const double alpha_parameters = scaling(b.alpha_parameters, t.element);
  const double beta_parameters = scaling(b.beta_parameters, t.element);
  if (const auto status = check_unblended(function, b.fusion, alpha_data, beta_data)) return status;
  check_overlap(function, dx, {x, dy, scale});
  check_overlap(function, dscale, {scale, dbias});
  if (b.fusion.adds()) check_overlap(function, dz, {x, dx});

  Operation o{.name = function, .step = [=] {
                with_compute_type(t.element, [&](auto c) {
                  run<decltype(c)>(b, t, tp, alpha_data, beta_data, alpha_parameters, beta_parameters);
                });
                return Step::done;
              }};
  reads(o, {x, dy, scale});
  if (b.fusion.activates()) {
    reads(o, {y, bias});
    Footprint(b.buffers.reserve, reserve_bytes(b.fusion, t)).read_by(o);
  }
  if (b.saved_mean) reads(o, {mean, inverse});
  blends(o, dx, beta_data);
  if (b.fusion.adds()) writes(o, {dz});
  blends(o, dscale, beta_parameters);
  blends(o, dbias, beta_parameters);
  Footprint(b.buffers.workspace, workspace_bytes(b.fusion, t)).written_by(o);
  return submit(function, *h, std::move(o));
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha,
                                                     const void* beta, const cudnnTensorDescriptor_t x_descriptor,
                                                     const void* x, const cudnnTensorDescriptor_t y_descriptor, void* y,
                                                     const cudnnTensorDescriptor_t parameters, const void* scale,
                                                     const void* bias, double factor, void* running_mean,
                                                     void* running_variance, double epsilon, void* saved_mean,
                                                     void* saved_inverse) {
  return train(__func__, handle,
               {.mode = mode,
                .fusion = {},
                .alpha = alpha,
                .beta = beta,
                .x_descriptor = x_descriptor,
                .x = x,
                .z_descriptor = nullptr,
                .z = nullptr,
                .y_descriptor = y_descriptor,
                .y = y,
                .parameters = parameters,
                .scale = scale,
                .bias = bias,
                .factor = factor,
                .running_mean = running_mean,
                .running_variance = running_variance,
                .epsilon = epsilon,
                .saved_mean = saved_mean,
                .saved_inverse = saved_inverse,
                .activation = nullptr,
                .buffers = {}});
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_descriptor, const void* x, const cudnnTensorDescriptor_t z_descriptor,
    const void* z, const cudnnTensorDescriptor_t y_descriptor, void* y, const cudnnTensorDescriptor_t parameters,
    const void* scale, const void* bias, double factor, void* running_mean, void* running_variance, double epsilon,
    void* saved_mean, void* saved_inverse, cudnnActivationDescriptor_t activation, void* workspace,
    size_t workspace_bytes, void* reserve, size_t reserve_bytes) {
  return train(__func__, handle,
               {.mode = mode,
                .fusion = {ops},
                .alpha = alpha,
                .beta = beta,
                .x_descriptor = x_descriptor,
                .x = x,
                .z_descriptor = z_descriptor,
                .z = z,
                .y_descriptor = y_descriptor,
                .y = y,
                .parameters = parameters,
                .scale = scale,
                .bias = bias,
                .factor = factor,
                .running_mean = running_mean,
                .running_variance = running_variance,
                .epsilon = epsilon,
                .saved_mean = saved_mean,
                .saved_inverse = saved_inverse,
                .activation = activation,
                .buffers = {workspace, workspace_bytes, reserve, reserve_bytes}});
}

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data,
                                              const void* beta_data, const void* alpha_parameters,
                                              const void* beta_parameters, const cudnnTensorDescriptor_t x_descriptor,
                                              const void* x, const cudnnTensorDescriptor_t dy_descriptor,
                                              const void* dy, const cudnnTensorDescriptor_t dx_descriptor, void* dx,
                                              const cudnnTensorDescriptor_t parameters, const void* scale, void* dscale,
                                              void* dbias, double epsilon, const void* saved_mean,
                                              const void* saved_inverse) {
  return differentiate(__func__, handle,
                       {.mode = mode,
                        .fusion = {},
                        .alpha_data = alpha_data,
                        .beta_data = beta_data,
                        .alpha_parameters = alpha_parameters,
                        .beta_parameters = beta_parameters,
                        .x_descriptor = x_descriptor,
                        .x = x,
                        .y_descriptor = nullptr,
                        .y = nullptr,
                        .dy_descriptor = dy_descriptor,
                        .dy = dy,
                        .dz_descriptor = nullptr,
                        .dz = nullptr,
                        .dx_descriptor = dx_descriptor,
                        .dx = dx,
                        .parameters = parameters,
                        .scale = scale,
                        .bias = nullptr,
                        .dscale = dscale,
                        .dbias = dbias,
                        .epsilon = epsilon,
                        .saved_mean = saved_mean,
                        .saved_inverse = saved_inverse,
                        .activation = nullptr,
                        .buffers = {}});
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void* alpha_data,
    const void* beta_data, const void* alpha_parameters, const void* beta_parameters,
    const cudnnTensorDescriptor_t x_descriptor, const void* x, const cudnnTensorDescriptor_t y_descriptor,
    const void* y, const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    const cudnnTensorDescriptor_t dz_descriptor, void* dz, const cudnnTensorDescriptor_t dx_descriptor, void* dx,
    const cudnnTensorDescriptor_t parameters, const void* scale, const void* bias, void* dscale, void* dbias,
    double epsilon, const void* saved_mean, const void* saved_inverse, cudnnActivationDescriptor_t activation,
    void* workspace, size_t workspace_bytes, void* reserve, size_t reserve_bytes) {
  return differentiate(__func__, handle,
                       {.mode = mode,
                        .fusion = {ops},
                        .alpha_data = alpha_data,
                        .beta_data = beta_data,
                        .alpha_parameters = alpha_parameters,
                        .beta_parameters = beta_parameters,
                        .x_descriptor = x_descriptor,
                        .x = x,
                        .y_descriptor = y_descriptor,
                        .y = y,
                        .dy_descriptor = dy_descriptor,
                        .dy = dy,
                        .dz_descriptor = dz_descriptor,
                        .dz = dz,
                        .dx_descriptor = dx_descriptor,
                        .dx = dx,
                        .parameters = parameters,
                        .scale = scale,
                        .bias = bias,
                        .dscale = dscale,
                        .dbias = dbias,
                        .epsilon = epsilon,
                        .saved_mean = saved_mean,
                        .saved_inverse = saved_inverse,
                        .activation = activation,
                        .buffers = {workspace, workspace_bytes, reserve, reserve_bytes}});
}

}  // extern "C"
