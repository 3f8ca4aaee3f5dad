#include <tandem/cuda/range_check.h>
#include <tandem/cuda/runtime.h>
#include <tandem/ops/next_rows.h>

namespace tandem::cuda_impl {
namespace {

// One block, which moves the cursor when all of it has read it. Past the lists' end there is 0.
__global__ void next_rows_kernel(int64_t* y, const int64_t* lists, int64_t* cursor, int64_t k, int64_t n, int64_t m,
                                 RangeCheck in_range) {
  const int64_t position = cursor[kCursorPosition];
  for (int64_t i = threadIdx.x; i < k * n; i += blockDim.x) {
    const int64_t column = position + i % n;
    y[i] = in_range(column, i % n) ? lists[i / n * m + column] : 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) cursor[kCursorPosition] = position + n;
}

void next_rows_cuda(Tensor& y, const Tensor& lists, Tensor& cursor) {
  if (y.numel() == 0) return;
  On on(y);
  launch(on, {dim3(1), dim3(kBlock)}, next_rows_kernel, y.ptr<int64_t>(), lists.ptr<int64_t>(), cursor.ptr<int64_t>(),
         y.size(0), y.size(1), lists.size(1), RangeCheck(y.device(), RangeOf::dimension, lists.size(1), 1));
}

TANDEM_KERNEL(next_rows_forward, cuda, next_rows_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
