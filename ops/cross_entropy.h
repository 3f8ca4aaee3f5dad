/// Cross entropy of logits against class indices or class probabilities, softmax and loss in one pass that writes the
/// logits' gradient as well.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/reduction.h>

namespace tandem {

struct CrossEntropyOptions {
  Tensor weight = {};  // [c], one per class
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;   // this share of each target is spread over all classes
  int64_t ignore_index = -100;  // rows with this target count for nothing
};

/// torch.nn.functional.cross_entropy. logits [c], [n,c] or [n,c,d1,...]; target either i64 class indices of the shape
/// without c, or floating probabilities of the logits' shape. The mean over class indices is by weight (all ignored:
/// NaN), over probabilities by rows. `none` gives the shape without c.
/// Throws ShapeError where logits, target and weight do not fit, DtypeError for other dtypes, Error for a target that
/// is no class or a label_smoothing outside [0,1].
TANDEM_API Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o = {});

}  // namespace tandem
