/// Not installed: sums over the rows of a matrix, which is what a bias's gradient is.
#pragma once
#include <tandem/core/node.h>

namespace tandem::cuda_impl {

/// out[c] = beta * out[c] + sum over r of x[r * cols + c], of any floating type; out may be f32 where x is f16 or bf16.
void column_sum(const Out& out, const Tensor& x, int64_t rows, int64_t cols);

}  // namespace tandem::cuda_impl
