/// Gradient clipping (torch.nn.utils).
#pragma once
#include <tandem/core/tensor.h>

#include <vector>

namespace tandem::nn {

/// Scales all gradients together so that their norm, taken over all elements, is at most max_norm: by
/// min(1, max_norm / (norm + 1e-6)). Returns the norm before, of no dimensions and of the first gradient's dtype; 0
/// where there is no gradient. `norm_type` is any p > 0, or infinity for the largest magnitude. An infinite norm makes
/// infinite gradients NaN and the others 0, unless `error_if_nonfinite`, which reads the norm on the host and throws
/// Error before anything is scaled. Throws DeviceError where the gradients lie on several devices.
/// (torch.nn.utils.clip_grad_norm_)
TANDEM_API Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                                  bool error_if_nonfinite = false);

/// Brings each element of each gradient into [-clip_value, clip_value]; NaN stays. Throws Error for a negative value.
/// (torch.nn.utils.clip_grad_value_)
TANDEM_API void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace tandem::nn
