// Convolution descriptors: padding, strides, groups, what may be rounded.
#include "convolution.h"
#include "cudnn_convolution_problem.h"
#include "refusal.h"

namespace simgpu {

LiveObjects<cudnnConvolutionDescriptor_t, ConvolutionDescription>& convolution_descriptions() {
  static auto& all = *new LiveObjects<cudnnConvolutionDescriptor_t, ConvolutionDescription>("convolution descriptor");
  return all;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) {
  std::lock_guard lock(runtime_mutex());
  if (!d) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: nowhere to put the descriptor", __func__);
  *d = convolution_descriptions().add({});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) {
  std::lock_guard lock(runtime_mutex());
  convolution_descriptions().remove(d, __func__);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type) {
  std::lock_guard lock(runtime_mutex());
  ConvolutionDescription* c = convolution_descriptions().find(d, __func__);
  if (!c) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: padding %d, %d, strides %d, %d, dilations %d, %d", __func__, pad_h,
                  pad_w, stride_h, stride_w, dilation_h, dilation_w);
  if (mode != CUDNN_CONVOLUTION && mode != CUDNN_CROSS_CORRELATION)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: mode %d", __func__, int(mode));
  // bf16 is computed in float, and the library insists on that.
  if (compute_type != CUDNN_DATA_FLOAT && compute_type != CUDNN_DATA_DOUBLE && compute_type != CUDNN_DATA_HALF)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: compute type %d", __func__, int(compute_type));
  c->is_set = true;
  c->pad_h = pad_h, c->pad_w = pad_w;
  c->stride_h = stride_h, c->stride_w = stride_w;
  c->dilation_h = dilation_h, c->dilation_w = dilation_w;
  c->mode = mode;
  c->compute_type = compute_type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t type) {
  std::lock_guard lock(runtime_mutex());
  ConvolutionDescription* c = convolution_descriptions().find(d, __func__);
  if (!c || type < CUDNN_DEFAULT_MATH || type > CUDNN_FMA_MATH)
    return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor, or math type %d", __func__, int(type));
  c->math_type = type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  std::lock_guard lock(runtime_mutex());
  ConvolutionDescription* c = convolution_descriptions().find(d, __func__);
  if (!c || groups < 1) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor, or %d groups", __func__, groups);
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t d,
                                                    const cudnnTensorDescriptor_t input,
                                                    const cudnnFilterDescriptor_t filter, int* n, int* c, int* h,
                                                    int* w) {
  std::lock_guard lock(runtime_mutex());
  if (!n || !c || !h || !w) return refuse(CUDNN_STATUS_BAD_PARAM, "%s: no place for a size", __func__);
  ConvolutionShape shape;
  if (const auto status = describe_shape(__func__, input, filter, d, &shape)) return status;
  *n = int(shape.n), *c = int(shape.k), *h = int(shape.p), *w = int(shape.q);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
