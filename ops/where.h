/// Choosing between two tensors element by element.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/scalar.h>

namespace tandem {

/// y = condition ? a : b. Each operand has y's shape and is dense in y's layout, or has stride 0 throughout (a single
/// element); a, b and y have one dtype (any), the condition is bool.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& condition, const Tensor& a, const Tensor& b)>
    where_forward{"where_forward"};
/// gx = condition == side ? gy : 0, where side is true for a's gradient; gx may be gy; the condition is as above.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& condition, bool side)>
    where_backward_data{"where_backward_data"};

/// a where the bool `condition` holds, else b; all three are broadcast, a and b brought to one dtype (torch.where).
/// Throws DtypeError where the condition is not bool, ShapeError where shapes do not broadcast, DeviceError where
/// devices differ.
TANDEM_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
TANDEM_API Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
TANDEM_API Tensor where(const Tensor& condition, Scalar a, const Tensor& b);

}  // namespace tandem
