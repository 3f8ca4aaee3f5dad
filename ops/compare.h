/// Comparisons and what is made of them: tensors of bool, without gradients. Shapes broadcast and dtypes promote as in
/// arithmetic; NaN equals nothing and is neither less nor greater.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/tensor.h>
#include <tandem/ops/scalar.h>

namespace tandem {

// y is bool and dense; a and b have y's shape and one dtype that is not half precision, each dense in y's layout but
// for stride 0 where it was stretched. The others follow by exchanging a and b.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> eq_forward{"eq_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> ne_forward{"ne_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> lt_forward{"lt_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> le_forward{"le_forward"};
/// y, one bool, is whether any element of x (bool, dense) is true.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> any_forward{"any_forward"};

/// torch.eq, ne, lt, le, gt, ge. A number is taken in a floating tensor's dtype, and exactly beside integers.
TANDEM_API Tensor eq(const Tensor& a, const Tensor& b);
TANDEM_API Tensor eq(const Tensor& a, Scalar b);
TANDEM_API Tensor ne(const Tensor& a, const Tensor& b);
TANDEM_API Tensor ne(const Tensor& a, Scalar b);
TANDEM_API Tensor lt(const Tensor& a, const Tensor& b);
TANDEM_API Tensor lt(const Tensor& a, Scalar b);
TANDEM_API Tensor le(const Tensor& a, const Tensor& b);
TANDEM_API Tensor le(const Tensor& a, Scalar b);
TANDEM_API Tensor gt(const Tensor& a, const Tensor& b);
TANDEM_API Tensor gt(const Tensor& a, Scalar b);
TANDEM_API Tensor ge(const Tensor& a, const Tensor& b);
TANDEM_API Tensor ge(const Tensor& a, Scalar b);

/// torch.logical_not, logical_and, logical_or: of any dtype, where all but 0 is true.
TANDEM_API Tensor logical_not(const Tensor& x);
TANDEM_API Tensor logical_and(const Tensor& a, const Tensor& b);
TANDEM_API Tensor logical_or(const Tensor& a, const Tensor& b);

/// torch.isnan, isfinite.
TANDEM_API Tensor isnan(const Tensor& x);
TANDEM_API Tensor isfinite(const Tensor& x);

/// torch.all, any over all elements: one bool. All of nothing is true, any of nothing false.
TANDEM_API Tensor all(const Tensor& x);
TANDEM_API Tensor any(const Tensor& x);

/// torch.equal: whether shapes and elements are the same.
TANDEM_API bool equal(const Tensor& a, const Tensor& b);
/// torch.allclose: whether |a - b| <= atol + rtol * |b| everywhere; equal infinities are close, NaNs where `equal_nan`.
TANDEM_API bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
                         bool equal_nan = false);

}  // namespace tandem
