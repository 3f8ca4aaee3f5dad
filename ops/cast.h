/// Copies: to another dtype, to another device, or just a second one. Differentiable between floating dtypes.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// torch.Tensor.to(dtype): x itself where it has that dtype, else a converted copy in x's layout. Floats are cut to
/// integers as a C++ cast does. A result that is not floating takes no part in autograd.
TANDEM_API Tensor to(const Tensor& x, Dtype dtype);
/// torch.Tensor.to(device): x itself where it is there, else a copy. Throws DeviceError where there is no such device.
TANDEM_API Tensor to(const Tensor& x, Device device);
/// torch.clone: a copy with memory of its own, in x's layout (row-major where x is dense in none).
TANDEM_API Tensor clone(const Tensor& x);

}  // namespace tandem
