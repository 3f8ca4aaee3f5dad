#include "faults.h"

#include "launch.h"

namespace samples {
namespace {

__global__ void missing_barrier_kernel(float* y, const float* x) {
  __shared__ float s[128];
  s[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[127 - threadIdx.x];
}

__global__ void missing_warp_barrier_kernel(float* y, const float* x) {
  __shared__ float s[32];
  s[threadIdx.x] = 0;
  __syncwarp();
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void leave_before_barrier_kernel(float* x, int n) {
  if (int(threadIdx.x) >= n) return;
  x[threadIdx.x] += 1;
  __syncthreads();
  x[threadIdx.x] += 1;
}

__global__ void different_barriers_kernel(float* x) {
  if (threadIdx.x % 2) {
    __syncthreads();
    x[threadIdx.x] += 1;
  } else {
    __syncthreads();
  }
}

__global__ void incomplete_shuffle_kernel(float* x) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 20) v += __shfl_down_sync(0xffffffffu, v, 1);
  x[threadIdx.x] = v;
}

__global__ void shuffle_from_outside_kernel(float* x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 16);
}

__global__ void overrun_dynamic_kernel(float* x) {
  auto* s = dynamic_smem<float>();
  s[threadIdx.x + 1] = 1;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x + 1];
}

__global__ void overrun_static_kernel(float* x, int n) {
  __shared__ float s[32];
  for (int i = int(threadIdx.x); i <= n; i += 32) s[i] = x[0];
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}

__global__ void uninitialised_shared_kernel(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x + 32];
}

__global__ void block_race_kernel(float* x) { x[threadIdx.x] += 1; }

__global__ void half_atomic_kernel(float* x) {
  if (threadIdx.x % 2)
    atomicAdd(x, 1.0f);
  else
    *x += 1;
}

__global__ void one_too_many_kernel(float* y, const float* x, int n) {
  if (int(threadIdx.x) <= n) y[threadIdx.x] = x[threadIdx.x] + 1;
}

__global__ void copy_packed_kernel(float4* y, const float4* x) { y[threadIdx.x] = x[threadIdx.x]; }

struct Pointers {
  float* y;
  const float* x;
};
__global__ void add_in_struct_kernel(Pointers p, int n) {
  if (int(threadIdx.x) < n) p.y[threadIdx.x] = p.x[threadIdx.x] + 1;
}

__global__ void sum_without_fence_kernel(float* sum, float* partial, unsigned* ticket) {
  partial[blockIdx.x] = float(blockIdx.x);
  if (atomicAdd(ticket, 1u) != gridDim.x - 1) return;
  simgpu_join_blocks();
  for (unsigned b = 0; b < gridDim.x; ++b) *sum += partial[b];
}

__global__ void sum_by_wrong_block_kernel(float* sum, float* partial) {
  partial[blockIdx.x] = float(blockIdx.x);
  __threadfence();
  if (blockIdx.x != gridDim.x / 2) return;
  simgpu_join_blocks();
  for (unsigned b = 0; b < gridDim.x; ++b) *sum += partial[b];
}

__device__ int deeper(int depth, volatile char* above) {
  volatile char frame[512];
  frame[0] = above[0];
  return depth == 0 ? frame[0] : deeper(depth - 1, frame) + frame[0];
}
__global__ void recurse_kernel(int* x, int depth) {
  volatile char frame[1] = {1};
  *x = deeper(depth, frame);
}

}  // namespace

void missing_barrier(cudaStream_t stream, float* y, const float* x) {
  launch(stream, {dim3(1), dim3(128)}, missing_barrier_kernel, y, x);
}
void missing_warp_barrier(cudaStream_t stream, float* y, const float* x) {
  launch(stream, {dim3(1), dim3(32)}, missing_warp_barrier_kernel, y, x);
}
void leave_before_barrier(cudaStream_t stream, float* x, int n) {
  launch(stream, {dim3(1), dim3(128)}, leave_before_barrier_kernel, x, n);
}
void different_barriers(cudaStream_t stream, float* x) {
  launch(stream, {dim3(1), dim3(64)}, different_barriers_kernel, x);
}
void incomplete_shuffle(cudaStream_t stream, float* x) {
  launch(stream, {dim3(1), dim3(32)}, incomplete_shuffle_kernel, x);
}
void shuffle_from_outside(cudaStream_t stream, float* x) {
  launch(stream, {dim3(1), dim3(32)}, shuffle_from_outside_kernel, x);
}
void overrun_dynamic(cudaStream_t stream, float* x) {
  launch(stream, {dim3(1), dim3(32), 32 * sizeof(float)}, overrun_dynamic_kernel, x);
}
void overrun_static(cudaStream_t stream, float* x, int n) {
  launch(stream, {dim3(1), dim3(32)}, overrun_static_kernel, x, n);
}
void uninitialised_shared(cudaStream_t stream, float* y) {
  launch(stream, {dim3(1), dim3(32)}, uninitialised_shared_kernel, y);
}
void block_race(cudaStream_t stream, float* x) { launch(stream, {dim3(4), dim3(64)}, block_race_kernel, x); }
void half_atomic(cudaStream_t stream, float* x) { launch(stream, {dim3(1), dim3(32)}, half_atomic_kernel, x); }
void one_too_many(cudaStream_t stream, float* y, const float* x, int n) {
  launch(stream, {dim3(1), dim3(160)}, one_too_many_kernel, y, x, n);
}
void copy_packed(cudaStream_t stream, float* y, const float* x) {
  launch(stream, {dim3(1), dim3(8)}, copy_packed_kernel, reinterpret_cast<float4*>(y),
         reinterpret_cast<const float4*>(x));
}
void add_in_struct(cudaStream_t stream, float* y, const float* x, int n) {
  launch(stream, {dim3(1), dim3(64)}, add_in_struct_kernel, Pointers{y, x}, n);
}
void sum_without_fence(cudaStream_t stream, float* sum, float* partial, unsigned* ticket, int blocks) {
  launch(stream, {dim3(unsigned(blocks)), dim3(1)}, sum_without_fence_kernel, sum, partial, ticket);
}
void sum_by_wrong_block(cudaStream_t stream, float* sum, float* partial, int blocks) {
  launch(stream, {dim3(unsigned(blocks)), dim3(1)}, sum_by_wrong_block_kernel, sum, partial);
}
void recurse(cudaStream_t stream, int* x, int depth) { launch(stream, {dim3(1), dim3(1)}, recurse_kernel, x, depth); }

}  // namespace samples
