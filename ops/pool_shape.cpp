#include <tandem/ops/pool_shape.h>

namespace tandem::detail {

int64_t pooled_size(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool ceil_mode) {
  check<ShapeError>(kernel > 0 && stride > 0 && dilation > 0, "[", op, "] kernel ", kernel, ", stride ", stride,
                    ", dilation ", dilation, ": all must be at least 1");
  check<ShapeError>(padding >= 0 && padding <= kernel / 2, "[", op, "] padding ", padding,
                    " must be between 0 and half the kernel's size ", kernel);
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;  // steps the window can make
  check<ShapeError>(size > 0 && room + (ceil_mode ? stride - 1 : 0) >= 0, "[", op, "] a window of ",
                    dilation * (kernel - 1) + 1, " does not fit an image of ", size, " with padding ", padding);
  int64_t windows = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (windows - 1) * stride >= size + padding) --windows;
  return windows;
}

}  // namespace tandem::detail
