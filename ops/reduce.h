/// Reductions over any set of dimensions: sum, mean, amax, amin, var, argmax, argmin. On the CPU their order is a
/// function of the shape alone, so layouts and threads do not change a bit, and sums are taken in f64; on CUDA it
/// follows from shape and layout, and sums are in f32 unless of f64. Those of integers are in i64.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

#include <concepts>
#include <optional>

namespace tandem {

/// The kernels take x as [outer, n, inner], row-major, and reduce over n; y is dense, with outer * inner elements.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> sum_forward{"sum_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> mean_forward{"mean_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> amax_forward{"amax_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> amin_forward{"amin_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, bool unbiased)> var_forward{"var_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> argmax_forward{"argmax_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> argmin_forward{"argmin_forward"};

/// What each element of a mean over `count` gets of gy: g = gy / count, element by element, dense.
inline constinit TANDEM_API KernelSlot<void(Tensor& g, const Tensor& gy, int64_t count)> mean_backward_data{
    "mean_backward_data"};
/// The gradient of amax and amin: shared evenly by the elements of x that equal their y.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, const Tensor& y)>
    extremum_backward_data{"extremum_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, bool unbiased)>
    var_backward_data{"var_backward_data"};

struct VarOptions {
  bool unbiased = true;  // divide by the count - 1
  bool keepdim = false;  // reduced dimensions stay, with size 1
};

/// torch.sum. Integers and bools give i64; the sum of nothing is 0.
TANDEM_API Tensor sum(const Tensor& x);
/// Over these dimensions (negative ones count from the end; none named means all). Throws ShapeError for a dimension
/// out of range or named twice.
TANDEM_API Tensor sum(const Tensor& x, const Dims& dim, bool keepdim = false);

/// torch.mean of a floating tensor; the mean of nothing is NaN. Throws DtypeError.
TANDEM_API Tensor mean(const Tensor& x);
TANDEM_API Tensor mean(const Tensor& x, const Dims& dim, bool keepdim = false);

/// torch.amax: NaN wins; the gradient is shared evenly by equal maxima. Throws ShapeError where there is nothing to
/// choose from.
TANDEM_API Tensor amax(const Tensor& x);
TANDEM_API Tensor amax(const Tensor& x, const Dims& dim, bool keepdim = false);

/// torch.amin, as amax.
TANDEM_API Tensor amin(const Tensor& x);
TANDEM_API Tensor amin(const Tensor& x, const Dims& dim, bool keepdim = false);

/// torch.var of a floating tensor, in two passes; NaN where the divisor is 0. Throws DtypeError.
TANDEM_API Tensor var(const Tensor& x);
TANDEM_API Tensor var(const Tensor& x, const Dims& dim, VarOptions o = {});
/// Over all dimensions: `var(x, VarOptions{.unbiased = false})`.
template <std::same_as<VarOptions> O>
Tensor var(const Tensor& x, O o) {
  return var(x, Dims{}, o);
}

/// torch.argmax: the first index of the largest element, NaN counting as largest; i64, no gradient. Without `dim` the
/// index is that in the flattened tensor. Throws ShapeError where there is nothing to choose from.
TANDEM_API Tensor argmax(const Tensor& x, std::optional<int> dim = {}, bool keepdim = false);
/// torch.argmin, as argmax.
TANDEM_API Tensor argmin(const Tensor& x, std::optional<int> dim = {}, bool keepdim = false);

/// One dimension, as a plain number: `sum(x, 1)`.
template <std::integral I>
Tensor sum(const Tensor& x, I dim, bool keepdim = false) {
  return sum(x, Dims{int64_t(dim)}, keepdim);
}
template <std::integral I>
Tensor mean(const Tensor& x, I dim, bool keepdim = false) {
  return mean(x, Dims{int64_t(dim)}, keepdim);
}
template <std::integral I>
Tensor amax(const Tensor& x, I dim, bool keepdim = false) {
  return amax(x, Dims{int64_t(dim)}, keepdim);
}
template <std::integral I>
Tensor amin(const Tensor& x, I dim, bool keepdim = false) {
  return amin(x, Dims{int64_t(dim)}, keepdim);
}
template <std::integral I>
Tensor var(const Tensor& x, I dim, VarOptions o = {}) {
  return var(x, Dims{int64_t(dim)}, o);
}

}  // namespace tandem
