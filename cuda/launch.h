/// Not installed. How a kernel is started, and what its threads need to find their work. This is the one header of
/// cuda/ that the simulated GPU's overlay of cuda_runtime.h stands behind: sources start kernels by launch() and reach
/// dynamic shared memory by dynamic_smem(), and compile unchanged for both.
#pragma once
#include <cuda_runtime.h>
#include <tandem/cuda/check.h>

#include <cstdint>
#include <utility>

extern __shared__ __align__(16) unsigned char tandem_dynamic_smem[];

namespace tandem::cuda_impl {

struct Grid {
  dim3 blocks, threads;
  size_t smem = 0;  // bytes of dynamic shared memory
};

template <class... Params, class... Args>
void launch(cudaStream_t stream, Grid grid, void (*kernel)(Params...), Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.smem;
  config.stream = stream;
  TANDEM_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
  after_launch(stream);
}

inline constexpr int kBlock = 256;

/// Blocks of kBlock threads for a loop over n by first_index and index_step; never 0, and few enough that each thread
/// of a large loop has several turns.
inline Grid grid_for(int64_t n) {
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  return {dim3(unsigned(blocks < 1 ? 1 : blocks > 8192 ? 8192 : blocks)), dim3(kBlock)};
}

__device__ inline int64_t first_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t index_step() { return int64_t(gridDim.x) * blockDim.x; }

template <class T>
__device__ inline T* dynamic_smem() {
  return reinterpret_cast<T*>(tandem_dynamic_smem);
}

}  // namespace tandem::cuda_impl
