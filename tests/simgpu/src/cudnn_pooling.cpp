// cuDNN's pooling.
#include "cudnn_operands.h"
#include "pooling.h"

namespace simgpu {

LiveObjects<cudnnPoolingDescriptor_t, PoolingDescription>& pooling_descriptions() {
  static auto& all = *new LiveObjects<cudnnPoolingDescriptor_t, PoolingDescription>("pooling descriptor");
  return all;
}

namespace {

cudnnStatus_t describe(const char* function, const PoolingDescription& p, const TensorDescription& x, PoolingShape* t) {
  if (p.pad_h >= p.window_h || p.pad_w >= p.window_w || x.h + 2 * p.pad_h < p.window_h ||
      x.w + 2 * p.pad_w < p.window_w)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: windows of %ld x %ld over %ld x %ld padded by %ld and %ld", function,
                  p.window_h, p.window_w, x.h, x.w, p.pad_h, p.pad_w);
  *t = {.n = x.n,
        .c = x.c,
        .h = x.h,
        .w = x.w,
        .p = (x.h + 2 * p.pad_h - p.window_h) / p.stride_h + 1,
        .q = (x.w + 2 * p.pad_w - p.window_w) / p.stride_w + 1,
        .window_h = p.window_h,
        .window_w = p.window_w,
        .pad_h = p.pad_h,
        .pad_w = p.pad_w,
        .stride_h = p.stride_h,
        .stride_w = p.stride_w,
        .kind = p.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING   ? PoolingShape::average_with_padding
                : p.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING ? PoolingShape::average_without_padding
                                                                        : PoolingShape::max,
        .propagates_nan = p.propagates_nan};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t describe(const char* function, const PoolingDescription& p, const TensorDescription& x,
                       const TensorDescription& y, PoolingShape* t) {
  if (const auto status = describe(function, p, x, t)) return status;
  if (y.n != x.n || y.c != x.c || y.h != t->p || y.w != t->q || y.element != x.element)
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  "%s: y is %ld x %ld x %ld x %ld of %s, it should be %ld x %ld x %ld x %ld of %s", function, y.n, y.c,
                  y.h, y.w, name_of(y.element), x.n, x.c, t->p, t->q, name_of(x.element));
  return CUDNN_STATUS_SUCCESS;
}

bool like(const TensorDescription& a, const TensorDescription& b) {
  return a.same_sizes(b) && a.same_strides(b) && a.element == b.element;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* d) {
  std::lock_guard lock(runtime_mutex());
  if (!d) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: nowhere to put the descriptor", __func__);
  *d = pooling_descriptions().add({});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t d) {
  std::lock_guard lock(runtime_mutex());
  pooling_descriptions().remove(d, __func__);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t d, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int window_h, int window_w, int pad_h, int pad_w,
                                          int stride_h, int stride_w) {
  std::lock_guard lock(runtime_mutex());
  PoolingDescription* p = pooling_descriptions().find(d, __func__);
  if (!p) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (mode < CUDNN_POOLING_MAX || mode > CUDNN_POOLING_MAX_DETERMINISTIC ||
      (nan != CUDNN_NOT_PROPAGATE_NAN && nan != CUDNN_PROPAGATE_NAN))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: mode %d, NaN propagation %d", __func__, int(mode), int(nan));
  if (window_h < 1 || window_w < 1 || stride_h < 1 || stride_w < 1 || pad_h < 0 || pad_w < 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: windows %d x %d, strides %d, %d, padding %d, %d", __func__, window_h,
                  window_w, stride_h, stride_w, pad_h, pad_w);
  *p = {.is_set = true,
        .mode = mode,
        .propagates_nan = nan == CUDNN_PROPAGATE_NAN,
        .window_h = window_h,
        .window_w = window_w,
        .pad_h = pad_h,
        .pad_w = pad_w,
        .stride_h = stride_h,
        .stride_w = stride_w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetPooling2dForwardOutputDim(const cudnnPoolingDescriptor_t d, const cudnnTensorDescriptor_t input,
                                                int* n, int* c, int* h, int* w) {
  std::lock_guard lock(runtime_mutex());
  const PoolingDescription* p = pooling_descriptions().find(d, __func__);
  const TensorDescription* x = tensor_descriptions().find(input, __func__);
  if (!p || !x || !p->is_set || !x->is_set || !n || !c || !h || !w)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: a descriptor is missing, or no place for a size", __func__);
  PoolingShape t;
  if (const auto status = describe(__func__, *p, *x, &t)) return status;
  *n = int(t.n), *c = int(t.c), *h = int(t.p), *w = int(t.q);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t d, const void* alpha,
                                  const cudnnTensorDescriptor_t x_descriptor, const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t y_descriptor, void* y) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  const PoolingDescription* p = pooling_descriptions().find(d, __func__);
  if (!h || !p || !p->is_set || !alpha || !beta)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, descriptor, alpha or beta", __func__);
  const DnnOperand from{"x", tensor_descriptions().find(x_descriptor, __func__), x};
  const DnnOperand to{"y", tensor_descriptions().find(y_descriptor, __func__), y};
  if (const auto status = check_operands(__func__, {from, to})) return status;
  PoolingShape t;
  if (const auto status = describe(__func__, *p, *from.description, *to.description, &t)) return status;
  check_overlap(__func__, to, {from});
  const double a = scaling(alpha, from.description->element), b = scaling(beta, from.description->element);
  Operation o{.name = __func__, .step = [=, x_description = *from.description, y_description = *to.description] {
                with_compute_type(x_description.element, [&](auto c) {
                  store(y_description, y, pool(t, load<decltype(c)>(x_description, x)), a, b);
                });
                return Step::done;
              }};
  reads(o, {from});
  blends(o, to, b);
  return submit(__func__, *h, std::move(o));
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t d, const void* alpha,
                                   const cudnnTensorDescriptor_t y_descriptor, const void* y,
                                   const cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                                   const cudnnTensorDescriptor_t x_descriptor, const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  std::lock_guard lock(runtime_mutex());
  const DnnHandle* h = dnn_handles().find(handle, __func__);
  const PoolingDescription* p = pooling_descriptions().find(d, __func__);
  if (!h || !p || !p->is_set || !alpha || !beta)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no handle, descriptor, alpha or beta", __func__);
  const DnnOperand output{"y", tensor_descriptions().find(y_descriptor, __func__), y};
  const DnnOperand from{"dy", tensor_descriptions().find(dy_descriptor, __func__), dy};
  const DnnOperand input{"x", tensor_descriptions().find(x_descriptor, __func__), x};
  const DnnOperand to{"dx", tensor_descriptions().find(dx_descriptor, __func__), dx};
  if (const auto status = check_operands(__func__, {output, from, input, to})) return status;
  if (!like(*output.description, *from.description) || !like(*input.description, *to.description))
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: dy is not like y, or dx not like x", __func__);
  PoolingShape t;
  if (const auto status = describe(__func__, *p, *input.description, *output.description, &t)) return status;
  check_overlap(__func__, to, {output, from, input});
  const double a = scaling(alpha, to.description->element), b = scaling(beta, to.description->element);
  Operation o{.name = __func__, .step = [=, x_description = *input.description, y_description = *output.description] {
                with_compute_type(x_description.element, [&](auto c) {
                  using C = decltype(c);
                  const bool max = t.kind == PoolingShape::max;
                  store(x_description, dx,
                        pool_backward(t, max ? load<C>(x_description, x) : std::vector<C>(),
                                      max ? load<C>(y_description, y) : std::vector<C>(), load<C>(y_description, dy)),
                        a, b);
                });
                return Step::done;
              }};
  reads(o, {output, from, input});
  blends(o, to, b);
  return submit(__func__, *h, std::move(o));
}

}  // extern "C"
