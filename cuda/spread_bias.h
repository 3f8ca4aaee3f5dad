/// Not installed. A bias as what it is added to.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem::cuda_impl {

/// A view of b [c] with the shape given, whose dimension `channels` has size c; every other one has stride 0.
inline Tensor spread_bias(const Tensor& b, const Dims& shape, int channels) {
  Dims strides = shape;
  for (int i = 0; i < shape.size(); ++i) strides[i] = i == channels;
  return b.alias(shape, strides, b.impl()->offset);
}

}  // namespace tandem::cuda_impl
