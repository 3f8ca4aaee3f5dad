/// Batch normalisation per channel. Images are worked on and come out channels-last.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/moment_exchange.h>

namespace tandem {

/// All kernels work on rows [m,c], one row per sample and position. mean and invstd = 1 / sqrt(var + eps) are [c], f64
/// for f64 and f32 for all other x; weight and bias may be undefined.
///
/// The batch's statistics; where running ones are defined, those move by `momentum` towards the mean and the unbiased
/// variance.
inline constinit TANDEM_API KernelSlot<void(Tensor& mean, Tensor& invstd, Tensor& running_mean, Tensor& running_var,
                                            const Tensor& x, double momentum, double eps)>
    batch_norm_statistics{"batch_norm_statistics"};
/// The same in two steps, for a batch that is spread over ranks. moments f64 [1 + 2c]: how many rows there are, their
/// mean, and the sums of their squared distances from it.
inline constinit TANDEM_API KernelSlot<void(Tensor& moments, const Tensor& x)> batch_norm_moments{"batch_norm_moments"};
/// From the moments [parts,1+2c] of all parts of a batch, put together in their order (Chan, Golub, LeVeque 1983).
/// total: f64 [], rows of all of them; where it is 0, the running statistics stay as they are.
inline constinit TANDEM_API KernelSlot<void(Tensor& mean, Tensor& invstd, Tensor& total, Tensor& running_mean,
                                            Tensor& running_var, const Tensor& moments, double momentum, double eps)>
    batch_norm_merge{"batch_norm_merge"};
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
  /// Training: the batch is one of several that are normalised as one. All of them have to come here.
  std::shared_ptr<MomentExchange> exchange = nullptr;
};

/// torch.nn.functional.batch_norm. x [n,c] or [n,c,d1,...]; weight, bias, running_mean, running_var [c] or undefined.
/// Training normalises with the batch's biased variance and, where running statistics are given, moves them in place
/// towards the mean and the unbiased variance. Otherwise the running statistics are used.
/// Throws ShapeError where sizes differ or training has one value per channel, Error where there are no statistics to
/// use, DtypeError.
TANDEM_API Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                             const Tensor& running_var, BatchNormOptions o = {});

}  // namespace tandem
