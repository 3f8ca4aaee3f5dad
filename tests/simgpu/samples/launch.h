/// How the samples start kernels: as the library does, without the library.
#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#include <utility>

extern __shared__ __align__(16) unsigned char tandem_dynamic_smem[];

namespace samples {

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error));
}
#define CHECK_CUDA(call) ::samples::check((call), #call)

struct Grid {
  dim3 blocks, threads;
  size_t smem = 0;
};

template <class... P, class... A>
void launch(cudaStream_t stream, Grid grid, void (*kernel)(P...), A&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.smem;
  config.stream = stream;
  CHECK_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...));
}

template <class T>
__device__ inline T* dynamic_smem() {
  return reinterpret_cast<T*>(tandem_dynamic_smem);
}

}  // namespace samples
