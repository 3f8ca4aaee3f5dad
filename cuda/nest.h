/// Not installed. A loop nest over operands with strides of their own, as kernels see it: dimensions of size 1 dropped,
/// neighbours merged where all operands run on, so that what lies dense is one dimension.
#pragma once
#include <cuda_runtime.h>
#include <tandem/core/shape.h>

#include <array>
#include <bit>
#include <utility>

namespace tandem::cuda_impl {

/// Divides numbers below 2^31 by a multiplication and a shift (Granlund and Montgomery): GPUs have no instruction that
/// divides.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(uint32_t d) : shift_(uint32_t(std::bit_width(d - 1))) {  // d is at least 1 and below 2^31
    multiplier_ = uint32_t((((uint64_t(1) << shift_) - d) << 32) / d + 1);
  }
  __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, multiplier_) + n) >> shift_; }

 private:
  uint32_t multiplier_, shift_;
};

/// Dimensions from the outermost to the innermost, each with K strides (in elements).
template <int K>
struct Nest {
  int dims = 0;  // at least 1
  int64_t size[kMaxDims], stride[K][kMaxDims];

  /// `order`: the strides whose largest is outermost, those of what is written.
  Nest(const Dims& shape, const Dims& order, const std::array<const Dims*, K>& strides) {
    int from[kMaxDims];
    for (int d = 0; d < shape.size(); ++d)
      if (shape[d] != 1) {
        int at = dims++;
        for (; at > 0 && order[from[at - 1]] < order[d]; --at) from[at] = from[at - 1];
        from[at] = d;
      }
    const int all = std::exchange(dims, 0);
    for (int i = 0; i < all; ++i) {
      const int d = from[i];
      bool runs_on = dims > 0;
      for (int k = 0; k < K; ++k) runs_on = runs_on && stride[k][dims - 1] == (*strides[k])[d] * shape[d];
      if (runs_on)
        size[dims - 1] *= shape[d];
      else
        size[dims++] = shape[d];
      for (int k = 0; k < K; ++k) stride[k][dims - 1] = (*strides[k])[d];
    }
    if (!dims) {  // one element
      size[dims++] = 1;
      for (int k = 0; k < K; ++k) stride[k][0] = 1;
    }
    set_divisors();
  }

  /// Counts `run` neighbours along the innermost dimension as one element; they divide its size and all other strides.
  void take_together(int64_t run) {
    size[dims - 1] /= run;
    for (int d = 0; d + 1 < dims; ++d)
      for (int k = 0; k < K; ++k) stride[k][d] /= run;
    set_divisors();
  }

  int64_t inner_size() const { return size[dims - 1]; }
  __host__ __device__ int64_t inner_stride(int k) const { return stride[k][dims - 1]; }

  /// Where the nest's element i lies in each operand.
  __device__ void locate(int64_t i, int64_t (&at)[K]) const {
    for (int k = 0; k < K; ++k) at[k] = 0;
#pragma unroll 1
    for (int d = dims - 1; d > 0; --d) {
      const int64_t outer = below_2_31_ ? divisor_[d].quotient(uint32_t(i)) : i / size[d], index = i - outer * size[d];
      for (int k = 0; k < K; ++k) at[k] += index * stride[k][d];
      i = outer;
    }
    for (int k = 0; k < K; ++k) at[k] += i * stride[k][0];
  }

 private:
  void set_divisors() {
    int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= size[d];
    below_2_31_ = n <= INT32_MAX;
    if (below_2_31_)
      for (int d = 1; d < dims; ++d) divisor_[d] = Divisor(uint32_t(size[d]));
  }

  bool below_2_31_;  // all positions are
  Divisor divisor_[kMaxDims];
};

}  // namespace tandem::cuda_impl
