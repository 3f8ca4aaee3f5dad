// cuDNN's activations: ReLU, and the identity as part of other calls.
#include "cudnn_operands.h"

namespace simgpu {

LiveObjects<cudnnActivationDescriptor_t, ActivationDescription>& activation_descriptions() {
  static auto& all = *new LiveObjects<cudnnActivationDescriptor_t, ActivationDescription>("activation descriptor");
  return all;
}

namespace {

cudnnStatus_t check(const char* function, const DnnHandle* h, const ActivationDescription* a, const void* alpha,
                    const void* beta) {
  if (!h || !a || !a->is_set || !alpha || !beta)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, descriptor, alpha or beta", function);
  if (a->mode != CUDNN_ACTIVATION_RELU)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: activation %d; RELU alone is modelled", function, int(a->mode));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* d) {
  std::lock_guard lock(runtime_mutex());
  if (!d) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: nowhere to put the descriptor", __func__);
  *d = activation_descriptions().add({});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t d) {
  std::lock_guard lock(runtime_mutex());
  activation_descriptions().remove(d, __func__);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t nan, double) {
  std::lock_guard lock(runtime_mutex());
  ActivationDescription* a = activation_descriptions().find(d, __func__);
  if (!a) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (mode < CUDNN_ACTIVATION_SIGMOID || mode > CUDNN_ACTIVATION_SWISH ||
      (nan != CUDNN_NOT_PROPAGATE_NAN && nan != CUDNN_PROPAGATE_NAN))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: mode %d, NaN propagation %d", __func__, int(mode), int(nan));
  *a = {.is_set = true, .mode = mode, .propagates_nan = nan == CUDNN_PROPAGATE_NAN};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t d, const void* alpha,
                                     const cudnnTensorDescriptor_t x_descriptor, const void* x, const void* beta,
                                     const cudnnTensorDescriptor_t y_descriptor, void* y) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  const ActivationDescription* activation = activation_descriptions().find(d, __func__);
  if (const auto status = check(__func__, h, activation, alpha, beta)) return status;
  const DnnOperand from{"x", tensor_descriptions().find(x_descriptor, __func__), x};
  const DnnOperand to{"y", tensor_descriptions().find(y_descriptor, __func__), y};
  if (const auto status = check_operands(__func__, {from, to})) return status;
  const TensorDescription &x_description = *from.description, &y_description = *to.description;
  if (!x_description.same_sizes(y_description) || x_description.element != y_description.element)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "%s: x and y differ in size or type", __func__);
  if (x == y && !x_description.same_strides(y_description))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: y takes x's place with other strides", __func__);
  check_overlap(__func__, to, {from}, true);
  const double a = scaling(alpha, x_description.element), b = scaling(beta, x_description.element);
  Operation o{.name = __func__, .step = [=, nan = activation->propagates_nan] {
                with_compute_type(x_description.element, [&](auto c) {
                  auto values = load<decltype(c)>(x_description, x);
                  for (auto& v : values)
                    if (!(v > 0) && !(nan && v != v)) v = 0;
                  store(y_description, y, values, a, b);
                });
                return Step::done;
              }};
  reads(o, {from});
  blends(o, to, b);
  return submit(__func__, *h, std::move(o));
}

cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t d, const void* alpha,
                                      const cudnnTensorDescriptor_t y_descriptor, const void* y,
                                      const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                                      const cudnnTensorDescriptor_t x_descriptor, const void* x, const void* beta,
                                      const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  if (const auto status = check(__func__, h, activation_descriptions().find(d, __func__), alpha, beta)) return status;
  const DnnOperand output{"y", tensor_descriptions().find(y_descriptor, __func__), y};
  const DnnOperand from{"dy", tensor_descriptions().find(dy_descriptor, __func__), dy};
  const DnnOperand input{"x", tensor_descriptions().find(x_descriptor, __func__), x};
  const DnnOperand to{"dx", tensor_descriptions().find(dx_descriptor, __func__), dx};
  if (const auto status = check_operands(__func__, {output, from, input, to})) return status;
  const TensorDescription& t = *to.description;
  for (const DnnOperand& other : {output, from, input})
    if (!other.description->same_sizes(t) || !other.description->same_strides(t) ||
        other.description->element != t.element)
      return refuse(CUDNN_STATUS_BAD_PARAM, "%s: %s and dx differ in sizes, strides or type", __func__, other.name);
  check_overlap(__func__, to, {output, input});
  check_overlap(__func__, to, {from}, true);
  const double a = scaling(alpha, t.element), b = scaling(beta, t.element);
  if (dx == dy && b != 0) fail("%s: dx takes dy's place, and is blended with itself", __func__);
  Operation o{.name = __func__, .step = [=] {
                with_compute_type(t.element, [&](auto c) {
                  const auto outputs = load<decltype(c)>(t, y);
                  auto values = load<decltype(c)>(t, dy);
                  for (size_t i = 0; i < values.size(); ++i)
                    if (!(outputs[i] > 0)) values[i] = 0;
                  store(t, dx, values, a, b);
                });
                return Step::done;
              }};
  reads(o, {output, from, input});
  blends(o, to, b);
  return submit(__func__, *h, std::move(o));
}

}  // extern "C"
