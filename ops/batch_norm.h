/// Batch normalisation per channel. Images are worked on and come out channels-last.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

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
