/// Layer normalisation over the trailing dimensions. The result is row-major.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// torch.nn.functional.layer_norm: (x - mean) / sqrt(var + eps) * weight + bias, statistics (biased) over the trailing
/// dimensions `normalized_shape`, which is also the shape of weight and bias; either may be undefined. Throws
/// ShapeError naming both shapes, DtypeError.
TANDEM_API Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {},
                             const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tandem
