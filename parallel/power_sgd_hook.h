/// PowerSGD: gradients of matrices travel as products of two thin ones (Vogels, Karimireddy, Jaggi 2019).
#pragma once
#include <tandem/parallel/grad_bucket.h>

namespace tandem {

/// torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState's names and defaults.
struct PowerSGDOptions {
  /// Columns of the thin matrices: more are closer to the gradient, and more to send.
  int64_t matrix_approximation_rank = 1;
  /// The first so many backwards are reduced as they are: gradients of the start are no low-rank matrices.
  int64_t start_powerSGD_iter = 1000;
  /// A matrix is compressed only where that leaves less than one in so many of its numbers.
  double min_compression_rate = 2;
  /// What was lost of a gradient is added to the rank's next one.
  bool use_error_feedback = true;
  /// The last step's result is where the next step's approximation begins, instead of random values.
  bool warm_start = true;
  uint64_t random_seed = 0;
};

/// The mean M of the ranks' gradients M_r, for parameters of two dimensions and more (as [size(0), rest]), by one step
/// of the power method: P = the mean of M_r Q, made orthonormal; Q = the mean of M_rᵀ P; M is about P Qᵀ. Means are by
/// the wrapper's weights. Parameters that are not compressed travel along with P as they are.
///
/// Each rank keeps its bucket's errors, as much memory again as its gradients. A rank without samples in a step keeps
/// its error for the next one. A step with gradients that are not finite hands that on and leaves errors as they are.
/// Unlike PyTorch's, it may begin at once, and columns that vanish are replaced by random ones (there: NaN).
/// Throws Error for a rank or an iteration that makes no sense.
TANDEM_API std::unique_ptr<CommHook> power_sgd_hook(const PowerSGDOptions& options = {});

}  // namespace tandem
