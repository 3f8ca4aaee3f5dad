/// softmax and log_softmax over one dimension, safe for large values. The layout stays.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// torch.nn.functional.softmax: exp(x) / sum(exp(x)) along `dim` (-1 is the last); any shape, floating. Throws
/// ShapeError for a dimension out of range, DtypeError.
TANDEM_API Tensor softmax(const Tensor& x, int dim);
/// torch.nn.functional.log_softmax: the logarithm of softmax, computed without it.
TANDEM_API Tensor log_softmax(const Tensor& x, int dim);

}  // namespace tandem
