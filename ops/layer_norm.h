/// Layer normalisation over the trailing dimensions. The result is row-major.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// The kernels work on rows [m,n]; mean and invstd = 1 / sqrt(var + eps) are [m], f64 for f64 and f32 for all other x;
/// weight and bias hold n or are undefined.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, Tensor& mean, Tensor& invstd, const Tensor& x,
                                            const Tensor& weight, const Tensor& bias, double eps)>
    layer_norm_forward{"layer_norm_forward"};
/// gx may be gy.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& mean,
                                            const Tensor& invstd, const Tensor& weight)>
    layer_norm_backward_data{"layer_norm_backward_data"};
inline constinit TANDEM_API
    KernelSlot<void(Out g_weight, const Tensor& gy, const Tensor& x, const Tensor& mean, const Tensor& invstd)>
        layer_norm_backward_weight{"layer_norm_backward_weight"};
inline constinit TANDEM_API KernelSlot<void(Out g_bias, const Tensor& gy)> layer_norm_backward_bias{
    "layer_norm_backward_bias"};

/// torch.nn.functional.layer_norm: (x - mean) / sqrt(var + eps) * weight + bias, statistics (biased) over the trailing
/// dimensions `normalized_shape`, which is also the shape of weight and bias; either may be undefined. Throws
/// ShapeError naming both shapes, DtypeError.
TANDEM_API Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {},
                             const Tensor& bias = {}, double eps = 1e-5);

}  // namespace tandem
