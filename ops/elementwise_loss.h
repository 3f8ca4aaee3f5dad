/// Losses taken element by element from two tensors of one shape and floating dtype: mse, l1, smooth l1, binary cross
/// entropy. Gradients go to both. All throw ShapeError or DtypeError naming both sides; none broadcasts.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/reduction.h>

namespace tandem {

struct SmoothL1Options {
  Reduction reduction = Reduction::mean;
  double beta = 1;  // where the square turns into a line
};

/// The loss of x and y, element by element into a tensor of their shape (none), or into a single one. x and y are dense
/// alike; the order of a sum does not depend on threads.
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, const Tensor& x, const Tensor& y, Reduction)>
    mse_loss_forward{"mse_loss_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, const Tensor& x, const Tensor& y, Reduction)> l1_loss_forward{
    "l1_loss_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, const Tensor& x, const Tensor& y, Reduction, double beta)>
    smooth_l1_loss_forward{"smooth_l1_loss_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, const Tensor& x, const Tensor& y, Reduction)>
    binary_cross_entropy_with_logits_forward{"binary_cross_entropy_with_logits_forward"};

/// The gradient by x; gy is as the loss was. All but the last are even in x - y: with x and y swapped they give that by
/// y.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y, Reduction)>
    mse_loss_backward_data{"mse_loss_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y, Reduction)>
    l1_loss_backward_data{"l1_loss_backward_data"};
inline constinit TANDEM_API
    KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y, Reduction, double beta)>
        smooth_l1_loss_backward_data{"smooth_l1_loss_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y, Reduction)>
    binary_cross_entropy_with_logits_backward_data{"binary_cross_entropy_with_logits_backward_data"};
/// The gradient by the probabilities.
inline constinit TANDEM_API KernelSlot<void(Out g_target, const Tensor& gy, const Tensor& x, Reduction)>
    binary_cross_entropy_with_logits_backward_target{"binary_cross_entropy_with_logits_backward_target"};

/// torch.nn.functional.mse_loss: (x - y)^2.
TANDEM_API Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// torch.nn.functional.l1_loss: |x - y|; the gradient at 0 is 0.
TANDEM_API Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// torch.nn.functional.smooth_l1_loss: (x - y)^2 / (2 beta) where |x - y| < beta, else |x - y| - beta / 2. beta = 0 is
/// l1_loss; a negative one throws Error.
TANDEM_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, SmoothL1Options o = {});
/// torch.nn.functional.binary_cross_entropy_with_logits: of sigmoid(x) against probabilities y, safe for large x.
TANDEM_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                                   Reduction reduction = Reduction::mean);

}  // namespace tandem
