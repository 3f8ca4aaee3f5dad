/// Functions of one tensor, element by element, in its layout; integers are computed in f32 unless said otherwise.
///
/// Those that take their argument by value need only the result for their gradient, and write over a temporary that
/// nobody else holds, as relu does.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/binary.h>  // neg

#include <optional>
#include <string>

namespace tandem {

// Forward: y and x are dense in one layout; y may be x. Backward: gx = beta * gx + gradient, from gy and what was
// saved: the result y or the argument x; all dense in one layout, gx may be gy.

inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> exp_forward{"exp_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> exp_backward_data{
    "exp_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> log_forward{"log_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x)> log_backward_data{
    "log_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> sqrt_forward{"sqrt_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> sqrt_backward_data{
    "sqrt_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> rsqrt_forward{"rsqrt_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> rsqrt_backward_data{
    "rsqrt_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> reciprocal_forward{"reciprocal_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> reciprocal_backward_data{
    "reciprocal_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> abs_forward{"abs_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x)> abs_backward_data{
    "abs_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> square_forward{"square_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x)> square_backward_data{
    "square_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> sigmoid_forward{"sigmoid_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> sigmoid_backward_data{
    "sigmoid_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> tanh_forward{"tanh_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& y)> tanh_backward_data{
    "tanh_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> silu_forward{"silu_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x)> silu_backward_data{
    "silu_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> gelu_forward{"gelu_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x)> gelu_backward_data{
    "gelu_backward_data"};
/// The approximation by tanh.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> gelu_tanh_forward{"gelu_tanh_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x)> gelu_tanh_backward_data{
    "gelu_tanh_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, double slope)> leaky_relu_forward{
    "leaky_relu_forward"};
/// `sign` has x's sign: it is x, or y where slope >= 0.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& sign, double slope)>
    leaky_relu_backward_data{"leaky_relu_backward_data"};
/// A bound that is not wanted is infinite.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, double min, double max)> clamp_forward{
    "clamp_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, double min, double max)>
    clamp_backward_data{"clamp_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, double exponent)> pow_forward{"pow_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& x, double exponent)>
    pow_backward_data{"pow_backward_data"};

/// torch.exp, log, sqrt, rsqrt, reciprocal.
TANDEM_API Tensor exp(Tensor x);
TANDEM_API Tensor log(const Tensor& x);
TANDEM_API Tensor sqrt(Tensor x);
TANDEM_API Tensor rsqrt(Tensor x);
TANDEM_API Tensor reciprocal(Tensor x);
/// torch.abs; integers stay; the gradient at 0 is 0. Throws DtypeError for bool.
TANDEM_API Tensor abs(const Tensor& x);
/// torch.square; integers stay. Throws DtypeError for bool.
TANDEM_API Tensor square(const Tensor& x);
/// torch.sigmoid, torch.tanh.
TANDEM_API Tensor sigmoid(Tensor x);
TANDEM_API Tensor tanh(Tensor x);
/// torch.nn.functional.silu: x * sigmoid(x).
TANDEM_API Tensor silu(const Tensor& x);
/// torch.nn.functional.gelu: x * P(standard normal < x), or with approximate = "tanh" its approximation. Throws Error
/// for another word.
TANDEM_API Tensor gelu(const Tensor& x, const std::string& approximate = "none");
/// torch.nn.functional.leaky_relu: x where positive, else slope * x; the gradient at 0 is the slope.
TANDEM_API Tensor leaky_relu(Tensor x, double slope = 0.01);
/// torch.clamp: at least min, at most max (max where min > max); NaN stays; the gradient is 1 at the bounds and
/// between, else 0. Integers stay. Throws Error where neither bound is given, DtypeError for bool, and for a fractional
/// bound of integers.
TANDEM_API Tensor clamp(const Tensor& x, std::optional<double> min, std::optional<double> max);
/// torch.pow with a number as the exponent; the gradient of x to the 0 is 0. Throws DtypeError for integers.
TANDEM_API Tensor pow(const Tensor& x, double exponent);

}  // namespace tandem
