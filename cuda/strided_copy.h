/// Not installed. Moving elements from any strides to any strides, on one device.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem::cuda_impl {

/// y = x: of one shape, dtype and device, and not empty.
void strided_copy(const Tensor& y, const Tensor& x);

}  // namespace tandem::cuda_impl
