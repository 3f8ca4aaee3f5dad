/// Not installed. Loops over rows of items: threads side by side take items of one row, and where a row has few, a
/// block takes several rows.
#pragma once
#include <tandem/cuda/launch.h>

#include <algorithm>
#include <bit>

namespace tandem::cuda_impl {

/// Blocks for
///   for (int64_t r = first_row(); r < rows; r += row_step())
///     for (int64_t i = first_item(); i < items; i += item_step())
inline Grid row_grid(int64_t rows, int64_t items) {
  constexpr int64_t kMostBlocks = 4096;
  const auto width = int64_t(std::bit_ceil(uint64_t(std::clamp<int64_t>(items, 1, kBlock)))), height = kBlock / width;
  const int64_t across = std::clamp<int64_t>((items + width - 1) / width, 1, kMostBlocks);
  const int64_t down = std::clamp<int64_t>((rows + height - 1) / height, 1, std::max<int64_t>(1, kMostBlocks / across));
  return {dim3(unsigned(across), unsigned(down)), dim3(unsigned(width), unsigned(height))};
}

__device__ inline int64_t first_row() { return int64_t(blockIdx.y) * blockDim.y + threadIdx.y; }
__device__ inline int64_t row_step() { return int64_t(gridDim.y) * blockDim.y; }
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t(gridDim.x) * blockDim.x; }

}  // namespace tandem::cuda_impl
