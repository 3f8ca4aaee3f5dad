/// Not installed: sums over the rows of a matrix, which is what a bias's gradient is.
#pragma once
#include <tandem/core/node.h>

namespace tandem::detail {

/// out[c] = beta * out[c] + sum over r of x[r * cols + c], f32 or f64. Sums are kept in double, and cut into parts that
/// depend on the shape alone: the same bits for any number of threads.
void column_sum(const Out& out, const Tensor& x, int64_t rows, int64_t cols);

}  // namespace tandem::detail
