/// Batch normalisation per channel. Images are worked on and come out channels-last.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// All kernels work on rows [m,c], one row per sample and position. mean and invstd = 1 / sqrt(var + eps) are [c], f64
/// for f64 and f32 for all other x; weight and bias may be undefined.
///
/// The batch's statistics; where running ones are defined, those move by `momentum` towards the mean and the unbiased
/// variance.
inline constinit TANDEM_API KernelSlot<void(Tensor& mean, Tensor& invstd, Tensor& running_mean, Tensor& running_var,
                                            const Tensor& x, double momentum, double eps)>
    batch_norm_statistics{"batch_norm_statistics"};
/// The running statistics, as those of a batch are given.
inline constinit TANDEM_API
    KernelSlot<void(Tensor& mean, Tensor& invstd, const Tensor& running_mean, const Tensor& running_var, double eps)>
        batch_norm_running_statistics{"batch_norm_running_statistics"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                                            const Tensor& weight, const Tensor& bias)>
    batch_norm_forward{"batch_norm_forward"};
/// g_bias = sum of gy and g_weight = sum of gy * (x - mean) * invstd, over the rows; as mean is. The data's gradient
/// needs them too.
inline constinit TANDEM_API KernelSlot<void(Tensor& g_weight, Tensor& g_bias, const Tensor& gy, const Tensor& x,
                                            const Tensor& mean, const Tensor& invstd)>
    batch_norm_backward_weight{"batch_norm_backward_weight"};
/// `training`: the statistics were the batch's, and depend on x. gx may be gy.
inline constinit TANDEM_API
    KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                    const Tensor& weight, const Tensor& g_weight, const Tensor& g_bias, bool training)>
        batch_norm_backward_data{"batch_norm_backward_data"};

struct BatchNormOptions {
  bool training = false;  // use the batch's statistics, and update the running ones
  double momentum = 0.1;  // weight of the new value in the running statistics
  double eps = 1e-5;      // added to the variance, under the root
};

/// torch.nn.functional.batch_norm. x [n,c] or [n,c,d1,...]; weight, bias, running_mean, running_var [c] or undefined.
/// Training normalises with the batch's biased variance and, where running statistics are given, moves them in place
/// towards the mean and the unbiased variance. Otherwise the running statistics are used.
/// Throws ShapeError where sizes differ or training has one value per channel, Error where there are no statistics to
/// use, DtypeError.
TANDEM_API Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                             const Tensor& running_var, BatchNormOptions o = {});

}  // namespace tandem
