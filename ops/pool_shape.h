/// Not installed: how many windows a pooling has.
#pragma once
#include <tandem/core/shape.h>

namespace tandem::detail {

/// Windows along one side of an image, as PyTorch counts them: with ceil_mode a last, cut-off window counts unless it
/// starts in the padding. Throws ShapeError naming the op where the numbers make no pooling.
int64_t pooled_size(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool ceil_mode);

}  // namespace tandem::detail
