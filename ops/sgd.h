/// The pass of torch.optim.SGD over the parameters that have a gradient.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/ops/param_row.h>

namespace tandem {

/// Columns of the options: an f64 tensor [groups, kSgdOptions] on the parameters' device, so that a step that was
/// captured once still reads what a scheduler wrote since. Flags are 0 or 1.
enum SgdOption { kSgdLr, kSgdMomentum, kSgdDampening, kSgdWeightDecay, kSgdNesterov, kSgdMaximize, kSgdOptions };

/// p -= lr * (g + momentum...), see nn/sgd.h. `momentum_buffer` is undefined where no group has momentum; a row of step
/// 0 does not read it and starts it with its gradient.
inline constinit TANDEM_API
    KernelSlot<void(std::span<const ParamRow> rows, const Tensor& momentum_buffer, const Tensor& options)>
        sgd_step{"sgd_step"};

}  // namespace tandem
