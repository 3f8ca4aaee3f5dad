/// Not installed: how the slices along one dimension lie in a dense tensor's memory.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem::detail {

/// A dense tensor as [outer, size, inner] around one dimension, in the order in which its elements lie.
struct Slices {
  int64_t outer = 1, size = 1, inner = 1;
  Slices(const Tensor& x, int dim) {
    if (x.dim() == 0) return;
    const std::array<int, 4> last{0, 2, 3, 1};
    const bool channels_last = x.layout() == Layout::channels_last;
    bool before = true;
    for (int i = 0; i < x.dim(); ++i) {
      const int d = channels_last ? last[size_t(i)] : i;
      if (d == dim) {
        size = x.size(d);
        before = false;
      } else {
        (before ? outer : inner) *= x.size(d);
      }
    }
  }
};

}  // namespace tandem::detail
