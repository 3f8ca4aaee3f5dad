/// Padding by a constant. It only fills and copies, so it has no kernel of its own.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// x with `pads[0]` elements of `value` before and `pads[1]` after it in the last dimension, `pads[2]` and `pads[3]` in
/// the last but one, and so on; negative numbers crop (torch.nn.functional.pad, mode constant). Any dtype; x's layout
/// is kept. Throws ShapeError where there are too many pads or an odd number of them, or where a size would be
/// negative.
TANDEM_API Tensor pad(const Tensor& x, const Dims& pads, double value = 0);

}  // namespace tandem
