/// Negative log likelihood: what cross_entropy is after log_softmax.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/reduction.h>

namespace tandem {

/// The loss of rows of log-probabilities [m,c] (row-major), into one value or (none) into m; target i64 [m], weight [c]
/// or undefined. `total` takes what a mean is divided by: f64 for f64, f32 for all other x. Throws Error for a target
/// that is no class, as cross_entropy_forward does.
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, Tensor& total, const Tensor& x, const Tensor& target,
                                            const Tensor& weight, Reduction, int64_t ignore_index)>
    nll_loss_forward{"nll_loss_forward"};
/// gy holds one value, or (none) one per row.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& total, const Tensor& target,
                                            const Tensor& weight, Reduction, int64_t ignore_index)>
    nll_loss_backward_data{"nll_loss_backward_data"};

struct NllLossOptions {
  Tensor weight = {};  // [c], one per class
  Reduction reduction = Reduction::mean;
  int64_t ignore_index = -100;  // rows with this target count for nothing
};

/// torch.nn.functional.nll_loss: -weight[t] * log_probs[t] per row; log_probs [c], [n,c] or [n,c,d1,...], target i64 of
/// the shape without c. The mean is by weight (all ignored: NaN). Throws ShapeError, DtypeError, and Error for a target
/// that is no class.
TANDEM_API Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& o = {});

}  // namespace tandem
