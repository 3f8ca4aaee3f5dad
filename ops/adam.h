/// The pass of torch.optim.Adam and AdamW over the parameters that have a gradient.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/ops/param_row.h>

namespace tandem {

/// Columns of the options: an f64 tensor [groups, kAdamOptions] on the parameters' device, as in ops/sgd.h.
/// kAdamDecoupled: weight decay shrinks the parameter (AdamW) instead of joining the gradient.
enum AdamOption {
  kAdamLr,
  kAdamBeta1,
  kAdamBeta2,
  kAdamEps,
  kAdamWeightDecay,
  kAdamDecoupled,
  kAdamAmsgrad,
  kAdamMaximize,
  kAdamOptions
};

struct AdamState {
  Tensor exp_avg, exp_avg_sq;
  Tensor max_exp_avg_sq;  // undefined where no group has amsgrad
  Tensor steps;           // f64 [rows]: updates of each row, which the kernel counts on the device
};

/// See nn/adam.h. Rows of one `step` have one count in `steps`.
inline constinit TANDEM_API
    KernelSlot<void(std::span<const ParamRow> rows, const AdamState& state, const Tensor& options)>
        adam_step{"adam_step"};

}  // namespace tandem
