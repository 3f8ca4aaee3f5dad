/// Kernels that do what real ones do, for tests of the simulator. Each function launches one.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace samples {

/// y[i] = a x[i] + b, an element a thread or four.
void affine(cudaStream_t stream, float* y, const float* x, float a, float b, int64_t n);
void affine_packed(cudaStream_t stream, float* y, const float* x, float a, float b, int64_t n);

/// *sum += the sum of x, by shuffles, shared memory and one atomic addition a block.
void sum(cudaStream_t stream, float* sum, const float* x, int64_t n);
/// sums[r] = the sum of row r, in dynamic shared memory.
void row_sums(cudaStream_t stream, float* sums, const float* x, int rows, int columns, int threads = 128);
/// As sum, without floating atomics: the last block adds up what the others have left in partial, [blocks]. *ticket is
/// 0 before and after.
void sum_by_last_block(cudaStream_t stream, float* sum, float* partial, unsigned* ticket, const float* x, int64_t n,
                       int blocks);

/// y, [columns, rows], is x transposed, by tiles in static shared memory.
void transpose(cudaStream_t stream, float* y, const float* x, int rows, int columns);

/// How many of x are positive, by votes of the block's threads.
void count_positive(cudaStream_t stream, int* count, const float* x, int n);
/// y[i] = the sum of x over i's group of `width` lanes up to i.
void scan_groups(cudaStream_t stream, int* y, const int* x, int n, int width);

/// counts[x[i]] += 1
void histogram(cudaStream_t stream, int* counts, const int* x, int n);

/// out[i] = i's coordinates in a grid of blocks of three dimensions, as x + 100 y + 10000 z.
void coordinates(cudaStream_t stream, int* out, dim3 blocks, dim3 threads);

/// Does nothing with threads that wait `barriers` times.
void barriers(cudaStream_t stream, float* x, int blocks, int threads, int barriers);
void shuffles(cudaStream_t stream, float* x, int blocks, int threads, int shuffles);

}  // namespace samples
