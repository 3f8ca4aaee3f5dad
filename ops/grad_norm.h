/// The norm of all gradients together, and what clipping does with it. Nothing here is read on the host, so that a step
/// with clipping can be captured.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// norm (f64, one element) = (sum over all elements of all gradients of |g|^p)^(1/p), p > 0; the largest |g| for an
/// infinite p; NaN where one is NaN. Gradients are dense. Sums are in f64, in parts that depend neither on threads nor
/// on where the gradients lie.
inline constinit TANDEM_API KernelSlot<void(Tensor& norm, std::span<const Tensor> grads, double p)> grad_norm{
    "grad_norm"};
/// g *= min(1, max_norm / (norm + 1e-6)), a NaN staying one.
inline constinit TANDEM_API KernelSlot<void(std::span<const Tensor> grads, const Tensor& norm, double max_norm)>
    grad_scale{"grad_scale"};
/// Each element is brought into [-limit, limit]; NaN stays.
inline constinit TANDEM_API KernelSlot<void(std::span<const Tensor> grads, double limit)> grad_clamp{"grad_clamp"};

}  // namespace tandem
