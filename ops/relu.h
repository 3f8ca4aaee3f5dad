/// max(x, 0). Takes its argument by value: a temporary that nobody else holds is overwritten.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> relu_forward{"relu_forward"};  // y may be x
/// gx = 0 where y <= 0, else gy (so that a NaN's gradient passes); gx may be gy.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> relu_backward_data{
    "relu_backward_data"};

/// torch.nn.functional.relu; any shape, floating; the gradient at 0 is 0; NaN stays NaN, and its gradient passes.
TANDEM_API Tensor relu(Tensor x);

}  // namespace tandem
