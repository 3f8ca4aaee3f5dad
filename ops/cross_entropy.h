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

/// What a cross entropy kernel needs to know besides tensors.
struct CrossEntropyRule {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
  int64_t ignore_index = -100;
};

/// The loss of rows of logits [m,c] (row-major), into one value or (none) into m; target i64 [m], weight [c] or
/// undefined. Where dx [m,c] is defined it takes the logits' gradient for an upstream gradient of 1.
/// Throws Error for a target that is no class, before anything is written; on CUDA such a row counts for nothing, and
/// the error is thrown where the host next waits for the device.
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target,
                                            const Tensor& weight, const CrossEntropyRule&)>
    cross_entropy_forward{"cross_entropy_forward"};
/// The same for target probabilities [m,c].
inline constinit TANDEM_API KernelSlot<void(Tensor& loss, Tensor& dx, const Tensor& x, const Tensor& target,
                                            const Tensor& weight, const CrossEntropyRule&)>
    cross_entropy_of_probabilities_forward{"cross_entropy_of_probabilities_forward"};
/// gx = dx times its row's upstream gradient; gy holds one value, or one per row.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& dx)> cross_entropy_backward_data{
    "cross_entropy_backward_data"};
/// The gradient by the target probabilities.
inline constinit TANDEM_API
    KernelSlot<void(Out g_target, const Tensor& gy, const Tensor& x, const Tensor& weight, const CrossEntropyRule&)>
        cross_entropy_of_probabilities_backward_target{"cross_entropy_of_probabilities_backward_target"};

/// torch.nn.functional.cross_entropy. logits [c], [n,c] or [n,c,d1,...]; target either i64 class indices of the shape
/// without c, or floating probabilities of the logits' shape. The mean over class indices is by weight (all ignored:
/// NaN), over probabilities by rows. `none` gives the shape without c.
/// Throws ShapeError where logits, target and weight do not fit, DtypeError for other dtypes, Error for a target that
/// is no class or a label_smoothing outside [0,1].
TANDEM_API Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o = {});

}  // namespace tandem
