/// y = x wᵀ + b.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

// x and gy are row-major [..., k] and [..., n], w is row-major [n, k]; b may be undefined.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b)>
    linear_forward{"linear_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& w)> linear_backward_data{
    "linear_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Out gw, const Tensor& gy, const Tensor& x)> linear_backward_weight{
    "linear_backward_weight"};
inline constinit TANDEM_API KernelSlot<void(Out gb, const Tensor& gy)> linear_backward_bias{"linear_backward_bias"};

/// torch.nn.functional.linear. x [..., k], w [n, k], b [n] or left out; the result is [..., n].
/// Throws ShapeError, DtypeError, DeviceError naming both sides.
TANDEM_API Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {});

}  // namespace tandem
