// Batch normalisation: what its calls check, the sizes that they tell, and inference.
#include "cudnn_batch_norm.h"

#include <cmath>

namespace simgpu {

cudnnStatus_t check_normalization(const char* function, cudnnBatchNormMode_t mode, const TensorDescription& x,
                                  const TensorDescription* parameters, double epsilon) {
  if (mode < CUDNN_BATCHNORM_PER_ACTIVATION || mode > CUDNN_BATCHNORM_SPATIAL_PERSISTENT)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: mode %d", function, int(mode));
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: the mode PER_ACTIVATION is not modelled", function);
  if (!x.is_nhwc() && !x.is_nchw())
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: tensors with gaps are not modelled", function);
  if (!parameters || !parameters->is_set)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor of the parameters", function);
  const Element wanted = x.element == Element::f64 ? Element::f64 : Element::f32;
  const TensorDescription& p = *parameters;
  if (p.n != 1 || p.c != x.c || p.h != 1 || p.w != 1 || p.c_stride != 1 || p.element != wanted)
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  "%s: parameters of %ld x %ld x %ld x %ld %s; they are 1 x %ld x 1 x 1 %s for tensors of %s", function,
                  p.n, p.c, p.h, p.w, name_of(p.element), x.c, name_of(wanted), name_of(x.element));
  if (!(epsilon >= CUDNN_BN_MIN_EPSILON))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: an epsilon of %g", function, epsilon);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_fusion(const char* function, cudnnBatchNormMode_t mode, BatchNormFusion fusion,
                           const TensorDescription& x, cudnnActivationDescriptor_t activation) {
  if (fusion.ops < CUDNN_BATCHNORM_OPS_BN || fusion.ops > CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: operation %d", function, int(fusion.ops));
  if (!fusion.activates()) return CUDNN_STATUS_SUCCESS;
  const auto* a = activation_descriptions().find(activation, function);
  if (!a || !a->is_set) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no activation", function);
  if (mode != CUDNN_BATCHNORM_SPATIAL_PERSISTENT || !x.is_nhwc() || x.c % 4 || x.element == Element::f64 ||
      a->mode != CUDNN_ACTIVATION_RELU)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  "%s: a fused activation wants the mode SPATIAL_PERSISTENT, tensors in NHWC with channels in "
                  "multiples of 4, no doubles, and RELU",
                  function);
  return CUDNN_STATUS_SUCCESS;
}

size_t reserve_bytes(const BatchNormFusion& fusion, const TensorDescription& x) {
  return fusion.activates() ? (size_t(x.elements()) + 31) / 32 * 4 : 0;
}

size_t workspace_bytes(const BatchNormFusion& fusion, const TensorDescription& x) {
  return fusion.activates() ? (size_t(x.c) * 16 + 255) / 256 * 256 : 0;
}

cudnnStatus_t check_buffers(const char* function, const BatchNormFusion& fusion, const TensorDescription& x,
                            const BatchNormBuffers& b) {
  const size_t workspace = workspace_bytes(fusion, x), reserve = reserve_bytes(fusion, x);
  if ((workspace && (!b.workspace || b.workspace_bytes < workspace)) ||
      (reserve && (!b.reserve || b.reserve_bytes < reserve)))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: %zu bytes of workspace and %zu of reserve, wanted are %zu and %zu",
                  function, b.workspace ? b.workspace_bytes : 0, b.reserve ? b.reserve_bytes : 0, workspace, reserve);
  return CUDNN_STATUS_SUCCESS;
}

std::vector<double> inverse_roots(const std::vector<double>& variance, double epsilon) {
  std::vector<double> inverse;
  for (const double v : variance) inverse.push_back(1 / std::sqrt(v + epsilon));
  return inverse;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived, const cudnnTensorDescriptor_t x,
                                            cudnnBatchNormMode_t mode) {
  std::lock_guard lock(runtime_mutex());
  TensorDescription* to = tensor_descriptions().find(derived, __func__);
  const TensorDescription* from = tensor_descriptions().find(x, __func__);
  if (!to || !from || !from->is_set || mode < CUDNN_BATCHNORM_PER_ACTIVATION ||
      mode > CUDNN_BATCHNORM_SPATIAL_PERSISTENT)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a descriptor is missing, or mode %d", __func__, int(mode));
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: the mode PER_ACTIVATION is not modelled", __func__);
  *to = packed(CUDNN_TENSOR_NCHW, from->element == Element::f64 ? Element::f64 : Element::f32, 1, from->c, 1, 1);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t z, const cudnnTensorDescriptor_t y, const cudnnTensorDescriptor_t parameters,
    const cudnnActivationDescriptor_t activation, size_t* bytes) {
  std::lock_guard lock(runtime_mutex());
  const TensorDescription* t = tensor_descriptions().find(x, __func__);
  if (!dnn_handles().find(handle, __func__) || !t || !t->is_set || !tensor_descriptions().find(y, __func__) || !bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, x, y or place for the size", __func__);
  const BatchNormFusion fusion{ops};
  if (fusion.adds() && !tensor_descriptions().find(z, __func__))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no z", __func__);
  if (const auto status = check_normalization(__func__, mode, *t, tensor_descriptions().find(parameters, __func__), 0))
    return status;
  if (const auto status = check_fusion(__func__, mode, fusion, *t, activation)) return status;
  *bytes = workspace_bytes(fusion, *t);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t y, const cudnnTensorDescriptor_t dy, const cudnnTensorDescriptor_t dz,
    const cudnnTensorDescriptor_t dx, const cudnnTensorDescriptor_t parameters,
    const cudnnActivationDescriptor_t activation, size_t* bytes) {
  std::lock_guard lock(runtime_mutex());
  const TensorDescription* t = tensor_descriptions().find(x, __func__);
  if (!dnn_handles().find(handle, __func__) || !t || !t->is_set || !tensor_descriptions().find(dy, __func__) ||
      !tensor_descriptions().find(dx, __func__) || !bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, x, dy, dx or place for the size", __func__);
  const BatchNormFusion fusion{ops};
  if ((fusion.adds() && !tensor_descriptions().find(dz, __func__)) ||
      (fusion.activates() && !tensor_descriptions().find(y, __func__)))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no y or dz", __func__);
  if (const auto status = check_normalization(__func__, mode, *t, tensor_descriptions().find(parameters, __func__), 0))
    return status;
  if (const auto status = check_fusion(__func__, mode, fusion, *t, activation)) return status;
  *bytes = workspace_bytes(fusion, *t);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                                   cudnnBatchNormOps_t ops,
                                                                   const cudnnActivationDescriptor_t activation,
                                                                   const cudnnTensorDescriptor_t x, size_t* bytes) {
  std::lock_guard lock(runtime_mutex());
  const TensorDescription* t = tensor_descriptions().find(x, __func__);
  if (!dnn_handles().find(handle, __func__) || !t || !t->is_set || !bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, x or place for the size", __func__);
  const BatchNormFusion fusion{ops};
  if (const auto status = check_fusion(__func__, mode, fusion, *t, activation)) return status;
  *bytes = reserve_bytes(fusion, *t);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                                      const void* alpha, const void* beta,
                                                      const cudnnTensorDescriptor_t x_descriptor, const void* x,
                                                      const cudnnTensorDescriptor_t y_descriptor, void* y,
                                                      const cudnnTensorDescriptor_t parameters, const void* scale,
                                                      const void* bias, const void* mean, const void* variance,
                                                      double epsilon) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  if (!h || !alpha || !beta) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, alpha or beta", __func__);
  const TensorDescription* p = tensor_descriptions().find(parameters, __func__);
  const DnnOperand from{"x", tensor_descriptions().find(x_descriptor, __func__), x};
  const DnnOperand to{"y", tensor_descriptions().find(y_descriptor, __func__), y};
  const DnnOperand given[] = {
      {"the scale", p, scale}, {"the bias", p, bias}, {"the mean", p, mean}, {"the variance", p, variance}};
  if (const auto status = check_operands(__func__, {from, to, given[0], given[1], given[2], given[3]})) return status;
  const TensorDescription t = *from.description, tp = *p;
  if (!t.same_sizes(*to.description) || !t.same_strides(*to.description) || t.element != to.description->element)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: y is not like x", __func__);
  if (const auto status = check_normalization(__func__, mode, t, p, epsilon)) return status;
  check_overlap(__func__, to, {from, given[0], given[1], given[2], given[3]});
  const double a = scaling(alpha, t.element), b = scaling(beta, t.element);
  Operation o{.name = __func__, .step = [=] {
                with_compute_type(t.element, [&](auto c) {
                  using C = decltype(c);
                  const auto means = load<double>(tp, mean);
                  store(t, y,
                        normalize(load<C>(t, x), means, inverse_roots(load<double>(tp, variance), epsilon),
                                  load<C>(tp, scale), load<C>(tp, bias)),
                        a, b);
                });
                return Step::done;
              }};
  reads(o, {from, given[0], given[1], given[2], given[3]});
  blends(o, to, b);
  return submit(__func__, *h, std::move(o));
}

}  // extern "C"
