/// What cuDNN's handles and descriptors hold. Tensors have four dimensions.
#pragma once
#include <cudnn.h>

#include <optional>
#include <vector>

#include "element.h"
#include "footprint.h"
#include "live_objects.h"

namespace simgpu {

struct DnnHandle {
  int device;
  cudaStream_t stream = nullptr;
};

struct TensorDescription {
  bool is_set = false;
  Element element = Element::f32;
  int64_t n = 0, c = 0, h = 0, w = 0;
  int64_t n_stride = 0, c_stride = 0, h_stride = 0, w_stride = 0;  // elements

  int64_t elements() const { return n * c * h * w; }
  bool same_sizes(const TensorDescription& o) const { return n == o.n && c == o.c && h == o.h && w == o.w; }
  bool same_strides(const TensorDescription& o) const {
    return n_stride == o.n_stride && c_stride == o.c_stride && h_stride == o.h_stride && w_stride == o.w_stride;
  }
  /// No gaps within an image: channels innermost, or channel after channel.
  bool is_hwc_packed() const { return c_stride == 1 && w_stride == c && h_stride == w * c; }
  bool is_chw_packed() const { return w_stride == 1 && h_stride == w && c_stride == h * w; }
  /// And none between images.
  bool is_nhwc() const { return is_hwc_packed() && n_stride == c * h * w; }
  bool is_nchw() const { return is_chw_packed() && n_stride == c * h * w; }
  Footprint footprint(const void* data) const;
};

/// The elements as [n,h,w,c], in the type that they are computed in.
template <class C>
std::vector<C> load(const TensorDescription& t, const void* data);
/// data = alpha * result + beta * data, rounded once; with beta 0 what the tensor held is not read.
template <class C>
void store(const TensorDescription& t, void* data, const std::vector<C>& result, double alpha, double beta);

extern template std::vector<float> load(const TensorDescription&, const void*);
extern template std::vector<double> load(const TensorDescription&, const void*);
extern template void store(const TensorDescription&, void*, const std::vector<float>&, double, double);
extern template void store(const TensorDescription&, void*, const std::vector<double>&, double, double);

/// f(C()) for the type that these elements are computed in.
template <class F>
void with_compute_type(Element e, F&& f) {
  e == Element::f64 ? f(double()) : f(float());
}

struct FilterDescription {
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  TensorDescription tensor;  // [k,c,r,s] as n, c, h, w
};

struct ConvolutionDescription {
  bool is_set = false;
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
};

struct PoolingDescription {
  bool is_set = false;
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  bool propagates_nan = false;
  int64_t window_h = 1, window_w = 1, pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
};

struct ActivationDescription {
  bool is_set = false;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  bool propagates_nan = false;
};

LiveObjects<cudnnHandle_t, DnnHandle>& dnn_handles();
LiveObjects<cudnnTensorDescriptor_t, TensorDescription>& tensor_descriptions();
LiveObjects<cudnnFilterDescriptor_t, FilterDescription>& filter_descriptions();
LiveObjects<cudnnConvolutionDescriptor_t, ConvolutionDescription>& convolution_descriptions();
LiveObjects<cudnnPoolingDescriptor_t, PoolingDescription>& pooling_descriptions();
LiveObjects<cudnnActivationDescriptor_t, ActivationDescription>& activation_descriptions();

/// nullopt for a type that is not modelled.
std::optional<Element> element_of(cudnnDataType_t type);

/// The channels-first layout without gaps, or the channels-last one.
TensorDescription packed(cudnnTensorFormat_t format, Element e, int64_t n, int64_t c, int64_t h, int64_t w);

/// alpha or beta: a double for tensors of doubles, else a float.
inline double scaling(const void* p, Element e) {
  return e == Element::f64 ? *static_cast<const double*>(p) : double(*static_cast<const float*>(p));
}

}  // namespace simgpu
