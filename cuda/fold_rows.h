/// Not installed. Folds over the rows of matrices [rows, cols], column by column: a bias's gradient, batch norm's
/// statistics. The order depends on the sizes alone, so the bits are the same in every run.
///
/// A block takes neighbouring columns and every so-many-th row, 16 bytes a thread and access; where columns are few,
/// rows are shared among many blocks, whose results a second kernel folds.
#pragma once
#include <tandem/cuda/packs.h>

#include <bit>

namespace tandem::cuda_impl {

inline constexpr int kFoldColumns = 32, kFoldThreads = 8;  // of a block of fold_parts: columns, threads down each

template <class Op, int N, class Add, class Finish>
__global__ void fold_some_rows(Add add, Finish finish, typename Op::Acc* parts, int64_t rows, int64_t cols) {
  using Acc = typename Op::Acc;
  __shared__ Acc shared[N][kBlock];
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
  const int64_t col = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  Acc acc[N];
  for (int k = 0; k < N; ++k) acc[k] = Op::identity();
  if (col < cols)
    for (int64_t r = int64_t(blockIdx.y) * blockDim.y + threadIdx.y; r < rows; r += int64_t(gridDim.y) * blockDim.y)
      add(r, col, acc);
  for (int k = 0; k < N; ++k) shared[k][thread] = acc[k];
  for (unsigned half = blockDim.y / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
      for (int k = 0; k < N; ++k)
        shared[k][thread] = Op::combine(shared[k][thread], shared[k][thread + int(half * blockDim.x)]);
  }
  if (threadIdx.y > 0 || col >= cols) return;
  for (int k = 0; k < N; ++k) {
    if (gridDim.y == 1)
      finish(col + k, shared[k][thread]);
    else
      parts[blockIdx.y * cols + col + k] = shared[k][thread];
  }
}

template <class Op, class Finish>
__global__ void fold_parts(Finish finish, const typename Op::Acc* parts, int64_t count, int64_t cols) {
  using Acc = typename Op::Acc;
  __shared__ Acc shared[kFoldThreads][kFoldColumns];
  const int64_t col = int64_t(blockIdx.x) * kFoldColumns + threadIdx.x;
  Acc acc = Op::identity();
  if (col < cols)
    for (int64_t k = threadIdx.y; k < count; k += kFoldThreads) acc = Op::combine(acc, parts[k * cols + col]);
  shared[threadIdx.y][threadIdx.x] = acc;
  __syncthreads();
  if (threadIdx.y > 0 || col >= cols) return;
  for (int k = 1; k < kFoldThreads; ++k) acc = Op::combine(acc, shared[k][threadIdx.x]);
  finish(col, acc);
}

/// For each column, finish(col, acc) with the fold of what add(row, col, Acc (&acc)[N]) puts into the accumulators of
/// the N columns from `col` on; both are functors for the device. Op has an Acc, identity() and combine(), as those of
/// ops/fold.h.
template <class Op, int N, class Add, class Finish>
void fold_rows(const On& on, int64_t rows, int64_t cols, Add add, Finish finish) {
  if (cols == 0) return;
  constexpr int64_t kRowsAThread = 16, kMostBlocks = 1024;
  const int64_t items = cols / N;
  const auto width = int64_t(std::bit_ceil(uint64_t(std::min<int64_t>(items, 32)))), height = kBlock / width;
  const int64_t across = (items + width - 1) / width;
  const int64_t parts = std::clamp<int64_t>((rows + height * kRowsAThread - 1) / (height * kRowsAThread), 1,
                                            std::max<int64_t>(1, kMostBlocks / across));
  using Acc = typename Op::Acc;
  Tensor memory;
  if (parts > 1) memory = empty({parts * cols * int64_t(sizeof(Acc))}, {.dtype = Dtype::u8, .device = on.device()});
  Acc* of_parts = memory ? static_cast<Acc*>(memory.raw()) : nullptr;
  launch(on, {dim3(unsigned(across), unsigned(parts)), dim3(unsigned(width), unsigned(height))},
         fold_some_rows<Op, N, Add, Finish>, add, finish, of_parts, rows, cols);
  if (parts > 1)
    launch(on, {dim3(unsigned((cols + kFoldColumns - 1) / kFoldColumns)), dim3(kFoldColumns, kFoldThreads)},
           fold_parts<Op, Finish>, finish, of_parts, parts, cols);
}

}  // namespace tandem::cuda_impl
