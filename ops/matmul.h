/// Products of matrices, vectors and batches of matrices.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

// Operands are [..., rows, cols] with equally many dimensions. Each matrix of an operand is dense as it is or
// transposed (its first index runs fastest); batch dimensions may have any stride, 0 included, and broadcast where they
// are 1. Outputs are row-major; where one is 1 in a batch dimension in which the operands are not, the products are
// summed.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> matmul_forward{
    "matmul_forward"};
/// ga = gy bᵀ
inline constinit TANDEM_API KernelSlot<void(Out ga, const Tensor& gy, const Tensor& b)> matmul_backward_a{
    "matmul_backward_a"};
/// gb = aᵀ gy
inline constinit TANDEM_API KernelSlot<void(Out gb, const Tensor& gy, const Tensor& a)> matmul_backward_b{
    "matmul_backward_b"};

/// torch.matmul: two vectors give their dot product, a vector with a matrix a vector, [..., n, k] with [..., k, m]
/// gives [..., n, m], leading dimensions broadcasting. Transposed operands are read as they lie.
/// Throws ShapeError, DtypeError, DeviceError naming both sides.
TANDEM_API Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace tandem
