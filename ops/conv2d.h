/// Two-dimensional convolution (cross-correlation, as PyTorch's).
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/pair.h>

namespace tandem {

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};

// Images (x, y and their gradients) are channels-last. w and gw are [out, in / groups, kh, kw], dense in either layout.
// b and gb may be undefined.
inline constinit TANDEM_API
    KernelSlot<void(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o)>
        conv2d_forward{"conv2d_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o)>
    conv2d_backward_data{"conv2d_backward_data"};
/// Also writes the gradient of the bias where gb is defined: one pass over gy serves both.
inline constinit TANDEM_API KernelSlot<void(Out gw, Out gb, const Tensor& gy, const Tensor& x, const Conv2dOptions& o)>
    conv2d_backward_weight{"conv2d_backward_weight"};
/// For when the bias alone is wanted.
inline constinit TANDEM_API KernelSlot<void(Out gb, const Tensor& gy)> conv2d_backward_bias{"conv2d_backward_bias"};

/// torch.nn.functional.conv2d. x [n, c, h, w] or [c, h, w], w [out, c / groups, kh, kw], b [out] or left out.
/// The result is channels-last. Throws ShapeError, DtypeError, DeviceError naming both sides.
TANDEM_API Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b = {}, Conv2dOptions o = {});

}  // namespace tandem
