/// Choosing between two tensors element by element.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// y = condition ? a : b. Each operand is dense as y is, or expanded by stride 0 from a single element; a, b and y have
/// one dtype (any).
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& condition, const Tensor& a, const Tensor& b)>
    where_forward{"where_forward"};
/// gx = condition == side ? gy : 0, where side is true for a's gradient; condition is as in where_forward.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& condition, bool side)>
    where_backward_data{"where_backward_data"};

/// a where the bool `condition` holds, else b; all three are broadcast, a and b are promoted to one dtype
/// (torch.where). Throws DtypeError where the condition is not bool, ShapeError where shapes do not broadcast,
/// DeviceError where devices differ.
TANDEM_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// A number takes the dtype of the tensor on the other side.
TANDEM_API Tensor where(const Tensor& condition, const Tensor& a, double b);
TANDEM_API Tensor where(const Tensor& condition, double a, const Tensor& b);

}  // namespace tandem
