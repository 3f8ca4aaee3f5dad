/// Planted faults: each function launches a kernel with one, or the correct form of what a test then uses wrongly.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace samples {

/// Reverses 128 values by way of shared memory, without the barrier between.
void missing_barrier(cudaStream_t stream, float* y, const float* x);
/// Neighbours in a warp exchange values by way of shared memory, without __syncwarp between.
void missing_warp_barrier(cudaStream_t stream, float* y, const float* x);
/// Threads from n on leave before the barrier.
void leave_before_barrier(cudaStream_t stream, float* x, int n);
/// Even and odd threads wait at different barriers.
void different_barriers(cudaStream_t stream, float* x);
/// 20 lanes of 32 come to a shuffle of all.
void incomplete_shuffle(cudaStream_t stream, float* x);
/// A lane reads one that isn't in the mask.
void shuffle_from_outside(cudaStream_t stream, float* x);
/// Writes one float more than the launch's dynamic shared memory holds.
void overrun_dynamic(cudaStream_t stream, float* x);
/// Writes a static shared array up to its size, included.
void overrun_static(cudaStream_t stream, float* x, int n);
/// Reads shared memory that it wrote in part.
void uninitialised_shared(cudaStream_t stream, float* y);
/// Every block adds to the same elements.
void block_race(cudaStream_t stream, float* x);
/// Threads add to one element, with and without an atomic operation.
void half_atomic(cudaStream_t stream, float* x);
/// y[i] = x[i] + 1 up to n, included.
void one_too_many(cudaStream_t stream, float* y, const float* x, int n);
/// As affine_packed, whatever the alignment.
void copy_packed(cudaStream_t stream, float* y, const float* x);
/// The pointers travel in a struct, which no launch looks into.
void add_in_struct(cudaStream_t stream, float* y, const float* x, int n);
/// The last block sums up without the fence, or the first one does.
void sum_without_fence(cudaStream_t stream, float* sum, float* partial, unsigned* ticket, int blocks);
void sum_by_wrong_block(cudaStream_t stream, float* sum, float* partial, int blocks);
/// Calls itself until the stack is used up.
void recurse(cudaStream_t stream, int* x, int depth);

}  // namespace samples
