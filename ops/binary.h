/// Arithmetic of two tensors, or a tensor and a number: add, sub, mul, neg, div, maximum, minimum and the operators.
/// Shapes broadcast and dtypes promote as in PyTorch; the result is channels-last where an operand of its shape is.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/scalar.h>

namespace tandem {

// Operands have y's shape and one dtype; each is dense in y's layout but for stride 0 where it was stretched. An output
// may be an operand that was not.

/// y = a + alpha * b.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b, double alpha)> add_forward{
    "add_forward"};
/// y = beta * y + a * b; also its own gradient.
inline constinit TANDEM_API KernelSlot<void(Out y, const Tensor& a, const Tensor& b)> mul_forward{"mul_forward"};
/// y = beta * y + a / b; also the gradient by a. Floating only.
inline constinit TANDEM_API KernelSlot<void(Out y, const Tensor& a, const Tensor& b)> div_forward{"div_forward"};
/// gb = beta * gb - gy * (a / b) / b.
inline constinit TANDEM_API KernelSlot<void(Out gb, const Tensor& gy, const Tensor& a, const Tensor& b)>
    div_backward_divisor{"div_backward_divisor"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> maximum_forward{
    "maximum_forward"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& a, const Tensor& b)> minimum_forward{
    "minimum_forward"};
/// ga = beta * ga + gy where a wins, half of gy where a equals b, 0 where a < b. With a and b exchanged it is the
/// gradient by b, and minimum's by a.
inline constinit TANDEM_API KernelSlot<void(Out ga, const Tensor& gy, const Tensor& a, const Tensor& b)>
    maximum_backward_data{"maximum_backward_data"};
/// y = beta * y + factor * x.
inline constinit TANDEM_API KernelSlot<void(Out y, const Tensor& x, double factor)> scale_forward{"scale_forward"};
/// y = x + value.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, double value)> shift_forward{"shift_forward"};

/// torch.add: a + alpha * b; bools are or-ed. Throws DtypeError for a fractional alpha of integers.
TANDEM_API Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);
TANDEM_API Tensor add(const Tensor& a, Scalar b, double alpha = 1);
/// torch.sub: a - alpha * b. Throws DtypeError for bools.
TANDEM_API Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);
TANDEM_API Tensor sub(const Tensor& a, Scalar b, double alpha = 1);
TANDEM_API Tensor sub(Scalar a, const Tensor& b);
/// torch.mul; bools are and-ed.
TANDEM_API Tensor mul(const Tensor& a, const Tensor& b);
TANDEM_API Tensor mul(const Tensor& a, Scalar b);
/// torch.neg. Throws DtypeError for bool.
TANDEM_API Tensor neg(const Tensor& x);
/// torch.div: true division, of integers in f32.
TANDEM_API Tensor div(const Tensor& a, const Tensor& b);
TANDEM_API Tensor div(const Tensor& a, Scalar b);
TANDEM_API Tensor div(Scalar a, const Tensor& b);
/// torch.maximum: NaN wins; where a equals b each gets half of the gradient.
TANDEM_API Tensor maximum(const Tensor& a, const Tensor& b);
TANDEM_API Tensor maximum(const Tensor& a, Scalar b);
/// torch.minimum, as maximum.
TANDEM_API Tensor minimum(const Tensor& a, const Tensor& b);
TANDEM_API Tensor minimum(const Tensor& a, Scalar b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace tandem
