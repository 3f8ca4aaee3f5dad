/// Random tensors, the same numbers as PyTorch's CPU generator gives for the same seed, on every device: they are drawn
/// by `default_generator()` on the host, in row-major order whatever the layout, and then copied.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// Uniform in [0, 1) (torch.rand); floating dtypes, bit for bit.
TANDEM_API Tensor rand(const Dims& shape, TensorOptions o = {});

/// Normal with mean 0 and deviation 1 (torch.randn); floating dtypes. The draws are PyTorch's; the last bits depend on
/// its build, which takes the logarithm and cosine from a vector library.
TANDEM_API Tensor randn(const Dims& shape, TensorOptions o = {});

/// Integers in [low, high) (torch.randint), i64 unless told otherwise. Throws Error where the range is empty or does
/// not fit the dtype.
TANDEM_API Tensor randint(int64_t low, int64_t high, const Dims& shape, TensorOptions o = {.dtype = Dtype::i64});
/// Integers in [0, high).
TANDEM_API Tensor randint(int64_t high, const Dims& shape, TensorOptions o = {.dtype = Dtype::i64});

/// A permutation of 0..n-1 (torch.randperm).
TANDEM_API Tensor randperm(int64_t n, TensorOptions o = {.dtype = Dtype::i64});

/// Fills x with values uniform in [low, high) (Tensor.uniform_); returns x. Counts as a change of x. Throws Error where
/// low > high, where either lies outside the dtype, or where x requires grad and grad mode is on.
TANDEM_API Tensor& uniform_(Tensor& x, double low = 0, double high = 1);

/// Fills x with normal values (Tensor.normal_); returns x. Counts as a change of x. Throws Error where std is negative,
/// or where x requires grad and grad mode is on.
TANDEM_API Tensor& normal_(Tensor& x, double mean = 0, double std = 1);

}  // namespace tandem
