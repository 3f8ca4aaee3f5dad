/// softmax and log_softmax over one dimension, safe for large values. The layout stays.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// The kernels work on [outer, n, inner], row-major, and normalise along n.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> softmax_forward{"softmax_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> log_softmax_forward{"log_softmax_forward"};
/// y is the forward's result; gx may be gy.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> softmax_backward_data{
    "softmax_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> log_softmax_backward_data{
    "log_softmax_backward_data"};

/// torch.nn.functional.softmax: exp(x) / sum(exp(x)) along `dim` (-1 is the last); any shape, floating. Throws
/// ShapeError for a dimension out of range, DtypeError.
TANDEM_API Tensor softmax(const Tensor& x, int dim);
/// torch.nn.functional.log_softmax: the logarithm of softmax, computed without it.
TANDEM_API Tensor log_softmax(const Tensor& x, int dim);

}  // namespace tandem
