/// Negative log likelihood: what cross_entropy is after log_softmax.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/reduction.h>

namespace tandem {

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
