/// Not installed. A convolution's gradients by kernels of our own, from the definition: slow, and the same bits in
/// every run. For windows with dilation, where cuDNN's algorithms add by atomic operations.
#pragma once
#include <tandem/core/node.h>
#include <tandem/ops/conv2d.h>

namespace tandem::cuda_impl {

// For the tensors of the slots in ops/conv2d.h, of any floating type, none of them empty.

void conv2d_backward_data_direct(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o);
void conv2d_backward_weight_direct(const Out& gw, const Tensor& gy, const Tensor& x, const Conv2dOptions& o);

}  // namespace tandem::cuda_impl
