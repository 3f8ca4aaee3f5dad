#include "launch.h"
#include "samples.h"

namespace samples {
namespace {

__global__ void affine_kernel(float* y, const float* x, float a, float b, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + b;
}

__global__ void affine_packed_kernel(float4* y, const float4* x, float a, float b, int64_t packs) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  float4 v = x[i];
  v.x = a * v.x + b;
  v.y = a * v.y + b;
  v.z = a * v.z + b;
  v.w = a * v.w + b;
  y[i] = v;
}

__global__ void histogram_kernel(int* counts, const int* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(&counts[x[i]], 1);
}

__global__ void coordinates_kernel(int* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
                 z = blockIdx.z * blockDim.z + threadIdx.z;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = int(x + 100 * y + 10000 * z);
}

dim3 blocks_for(int64_t n) { return dim3(unsigned((n + 255) / 256)); }

}  // namespace

void affine(cudaStream_t stream, float* y, const float* x, float a, float b, int64_t n) {
  launch(stream, {blocks_for(n), dim3(256)}, affine_kernel, y, x, a, b, n);
}
void affine_packed(cudaStream_t stream, float* y, const float* x, float a, float b, int64_t n) {
  launch(stream, {blocks_for(n / 4), dim3(256)}, affine_packed_kernel, reinterpret_cast<float4*>(y),
         reinterpret_cast<const float4*>(x), a, b, n / 4);
}
void histogram(cudaStream_t stream, int* counts, const int* x, int n) {
  launch(stream, {blocks_for(n), dim3(256)}, histogram_kernel, counts, x, n);
}
void coordinates(cudaStream_t stream, int* out, dim3 blocks, dim3 threads) {
  launch(stream, {blocks, threads}, coordinates_kernel, out);
}

}  // namespace samples
