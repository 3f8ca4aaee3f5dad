/// cuDNN's handle and descriptors, for tests: each is destroyed with its owner.
#pragma once
#include <cudnn.h>
#include <doctest/doctest.h>

#include "typed_values.h"

namespace simgpu_test {

template <class Descriptor, cudnnStatus_t (*create)(Descriptor*), cudnnStatus_t (*destroy)(Descriptor)>
class DnnObject {
 public:
  DnnObject() { REQUIRE(create(&object_) == CUDNN_STATUS_SUCCESS); }
  ~DnnObject() { destroy(object_); }
  DnnObject(const DnnObject&) = delete;
  DnnObject& operator=(const DnnObject&) = delete;
  operator Descriptor() const { return object_; }

 private:
  Descriptor object_ = nullptr;
};

using Activation =
    DnnObject<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;
using Convolution =
    DnnObject<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using Pooling = DnnObject<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;

struct Tensor : DnnObject<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor> {
  Tensor() = default;
  Tensor(cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c, int h, int w) {
    REQUIRE(cudnnSetTensor4dDescriptor(*this, format, type, n, c, h, w) == CUDNN_STATUS_SUCCESS);
  }
};
struct Filter : DnnObject<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor> {
  Filter(cudnnTensorFormat_t format, cudnnDataType_t type, int k, int c, int h, int w) {
    REQUIRE(cudnnSetFilter4dDescriptor(*this, type, format, k, c, h, w) == CUDNN_STATUS_SUCCESS);
  }
};

/// A handle with a stream of its own.
struct Dnn : DnnObject<cudnnHandle_t, cudnnCreate, cudnnDestroy> {
  TestStream stream;
  explicit Dnn(int device = 0) : stream(device) { REQUIRE(cudnnSetStream(*this, stream) == CUDNN_STATUS_SUCCESS); }
};

/// The place of an element in a dense tensor.
struct Sizes {
  int n, c, h, w;
  size_t elements() const { return size_t(n) * size_t(c) * size_t(h) * size_t(w); }
  size_t at(cudnnTensorFormat_t format, int in, int ic, int ih, int iw) const {
    return size_t(format == CUDNN_TENSOR_NHWC ? ((in * h + ih) * w + iw) * c + ic : ((in * c + ic) * h + ih) * w + iw);
  }
};

}  // namespace simgpu_test
