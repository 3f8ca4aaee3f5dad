/// The largest value of each window of an image.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>
#include <tandem/ops/pair.h>

#include <optional>

namespace tandem {

struct MaxPool2dOptions {
  std::optional<Pair> stride = {};  // the kernel's size where left out
  Pair padding = 0, dilation = 1;
  bool ceil_mode = false;
};

/// A window with everything filled in.
struct MaxPool2dWindow {
  Pair kernel, stride, padding, dilation;
};

// Images are channels-last. `winner` (u8 where the window has at most 255 elements, else i32) says which element of its
// window each y is, counted by rows; it is undefined in forward where no gradient will be asked for.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, Tensor& winner, const Tensor& x, const MaxPool2dWindow& window)>
    max_pool2d_forward{"max_pool2d_forward"};
inline constinit TANDEM_API
    KernelSlot<void(Out gx, const Tensor& gy, const Tensor& winner, const MaxPool2dWindow& window)>
        max_pool2d_backward_data{"max_pool2d_backward_data"};

/// torch.nn.functional.max_pool2d. x [n, c, h, w] or [c, h, w]. Padding counts as -inf and is at most half the kernel;
/// of equal values the first takes the gradient; NaN wins. The result is channels-last.
/// Throws ShapeError, DtypeError.
TANDEM_API Tensor max_pool2d(const Tensor& x, Pair kernel_size, MaxPool2dOptions o = {});

}  // namespace tandem
