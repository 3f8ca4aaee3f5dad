/// Means over windows of an image: of a fixed size, or as many as the output has elements.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/pair.h>

#include <optional>

namespace tandem {

struct AvgPool2dOptions {
  std::optional<Pair> stride = {};  // the kernel's size where left out
  Pair padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // padding counts as zeros in the mean
};

/// A window with everything filled in.
struct AvgPool2dWindow {
  Pair kernel, stride, padding;
  bool count_include_pad;
};

// Images are channels-last.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, const AvgPool2dWindow& window)>
    avg_pool2d_forward{"avg_pool2d_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, const AvgPool2dWindow& window)>
    avg_pool2d_backward_data{"avg_pool2d_backward_data"};
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x)> adaptive_avg_pool2d_forward{
    "adaptive_avg_pool2d_forward"};
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy)> adaptive_avg_pool2d_backward_data{
    "adaptive_avg_pool2d_backward_data"};

/// torch.nn.functional.avg_pool2d. x [n, c, h, w] or [c, h, w]; padding is at most half the kernel. The result is
/// channels-last. Throws ShapeError, DtypeError.
TANDEM_API Tensor avg_pool2d(const Tensor& x, Pair kernel_size, AvgPool2dOptions o = {});

/// torch.nn.functional.adaptive_avg_pool2d: output element i of o is the mean over rows floor(i*h/o) to
/// ceil((i+1)*h/o), columns likewise. Throws ShapeError, DtypeError.
TANDEM_API Tensor adaptive_avg_pool2d(const Tensor& x, Pair output_size);

}  // namespace tandem
