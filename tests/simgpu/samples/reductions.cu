#include "launch.h"
#include "samples.h"

namespace samples {
namespace {

constexpr int kThreads = 256;

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

// In thread 0.
template <int Threads>
__device__ float block_sum(float v) {
  __shared__ float part[Threads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = threadIdx.x < Threads / 32 ? part[threadIdx.x] : 0.0f;
  return warp == 0 ? warp_sum(v) : v;
}

__device__ float strided_sum(const float* x, int64_t n) {
  float s = 0;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < n; i += int64_t(gridDim.x) * kThreads) s += x[i];
  return s;
}

__global__ void __launch_bounds__(kThreads) sum_kernel(float* sum, const float* __restrict__ x, int64_t n) {
  const float s = block_sum<kThreads>(strided_sum(x, n));
  if (threadIdx.x == 0) atomicAdd(sum, s);
}

__global__ void row_sums_kernel(float* sums, const float* x, int columns) {
  auto* shared = dynamic_smem<float>();
  float s = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) s += x[int64_t(blockIdx.x) * columns + c];
  shared[threadIdx.x] = s;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = shared[0];
}

__global__ void sum_by_last_block_kernel(float* sum, float* partial, unsigned* ticket, const float* x, int64_t n) {
  __shared__ bool last;
  const float s = block_sum<kThreads>(strided_sum(x, n));
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = s;
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  simgpu_join_blocks();
  if (threadIdx.x != 0) return;
  float all = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) all += partial[b];
  *sum = all;
  *ticket = 0;
}

__global__ void transpose_kernel(float* y, const float* x, int rows, int columns) {
  __shared__ float tile[16][17];
  const int column = int(blockIdx.x * 16 + threadIdx.x), row = int(blockIdx.y * 16 + threadIdx.y);
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();
  const int y_row = int(blockIdx.x * 16 + threadIdx.y), y_column = int(blockIdx.y * 16 + threadIdx.x);
  if (y_row < columns && y_column < rows) y[y_row * rows + y_column] = tile[threadIdx.x][threadIdx.y];
}

__global__ void count_positive_kernel(int* count, const float* x, int n) {
  const int n_here = __syncthreads_count(int(threadIdx.x) < n && x[threadIdx.x] > 0);
  if (threadIdx.x == 0) *count = n_here;
}

__global__ void scan_groups_kernel(int* y, const int* x, int width) {
  int v = x[threadIdx.x];
  for (int d = 1; d < width; d *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, v, d, width);
    if (int(threadIdx.x) % width >= d) v += before;
  }
  y[threadIdx.x] = v;
}

__global__ void barriers_kernel(float* x, int n) {
  for (int i = 0; i < n; ++i) __syncthreads();
  if (threadIdx.x == 0) x[blockIdx.x] = float(n);
}

__global__ void shuffles_kernel(float* x, int n) {
  float v = float(threadIdx.x);
  for (int i = 0; i < n; ++i) v = __shfl_xor_sync(0xffffffffu, v, 1);
  if (threadIdx.x == 0) x[blockIdx.x] = v;
}

}  // namespace

void sum(cudaStream_t stream, float* sum, const float* x, int64_t n) {
  launch(stream, {dim3(16), dim3(kThreads)}, sum_kernel, sum, x, n);
}
void row_sums(cudaStream_t stream, float* sums, const float* x, int rows, int columns, int threads) {
  launch(stream, {dim3(unsigned(rows)), dim3(unsigned(threads)), size_t(threads) * sizeof(float)}, row_sums_kernel,
         sums, x, columns);
}
void sum_by_last_block(cudaStream_t stream, float* sum, float* partial, unsigned* ticket, const float* x, int64_t n,
                       int blocks) {
  launch(stream, {dim3(unsigned(blocks)), dim3(kThreads)}, sum_by_last_block_kernel, sum, partial, ticket, x, n);
}
void transpose(cudaStream_t stream, float* y, const float* x, int rows, int columns) {
  launch(stream, {dim3(unsigned(columns + 15) / 16, unsigned(rows + 15) / 16), dim3(16, 16)}, transpose_kernel, y, x,
         rows, columns);
}
void count_positive(cudaStream_t stream, int* count, const float* x, int n) {
  launch(stream, {dim3(1), dim3(256)}, count_positive_kernel, count, x, n);
}
void scan_groups(cudaStream_t stream, int* y, const int* x, int n, int width) {
  launch(stream, {dim3(1), dim3(unsigned(n))}, scan_groups_kernel, y, x, width);
}
void barriers(cudaStream_t stream, float* x, int blocks, int threads, int barriers) {
  launch(stream, {dim3(unsigned(blocks)), dim3(unsigned(threads))}, barriers_kernel, x, barriers);
}
void shuffles(cudaStream_t stream, float* x, int blocks, int threads, int shuffles) {
  launch(stream, {dim3(unsigned(blocks)), dim3(unsigned(threads))}, shuffles_kernel, x, shuffles);
}

}  // namespace samples
