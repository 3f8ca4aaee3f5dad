/// Not installed. Convolutions by cuDNN, the one door to it: no other source calls the library, and these few functions
/// are all that is asked of it.
#pragma once
#include <tandem/core/node.h>
#include <tandem/ops/conv2d.h>

namespace tandem::cuda_impl {

// For the tensors of the slots in ops/conv2d.h, of any floating type. No tensor is empty. Algorithms come from the
// library's rules or, where the context asks for it, from timing; they are deterministic where the context asks for
// that; f32 is computed in TF32 where it is allowed. Throw DeviceError with the sizes where the library refuses.

/// y = the convolution of x with w, plus b where there is one.
void cudnn_convolution_forward(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o);
/// The two gradients: false, with nothing done, where the context asks for a deterministic algorithm and the library
/// has none.
bool cudnn_convolution_backward_data(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o);
bool cudnn_convolution_backward_weight(const Out& gw, const Tensor& gy, const Tensor& x, const Conv2dOptions& o);

}  // namespace tandem::cuda_impl
