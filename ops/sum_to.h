/// The sum that undoes a broadcast: what the gradient of an operand that was stretched to a larger shape needs. Not
/// differentiable; for closures.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// y = beta * y + x summed over the dimensions along which y's shape, aligned at the right, broadcasts to x's. Both
/// dense, in any layouts, of one floating dtype. On the CPU the same bits for any number of threads and any layouts.
inline constinit TANDEM_API KernelSlot<void(Out y, const Tensor& x)> sum_to_forward{"sum_to_forward"};

/// x summed down to `shape` (torch.Tensor.sum_to_size); x itself where it has that shape. Throws ShapeError where
/// `shape` does not broadcast to x's, DtypeError where x is not floating.
TANDEM_API Tensor sum_to(const Tensor& x, const Dims& shape);
/// The gradient of an operand that was broadcast to gy's shape: gy itself where nothing was stretched, else its sum.
TANDEM_API void give_sum_to(Target& gx, Tensor gy);

}  // namespace tandem
