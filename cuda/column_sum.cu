#include <tandem/cuda/column_sum.h>
#include <tandem/cuda/reduce_blocks.h>

namespace tandem::cuda_impl {

void column_sum(const Out& out, const Tensor& x, int64_t rows, int64_t cols) {
  const Tensor blocks = x.alias({1, rows, cols}, {rows * cols, cols, 1}, x.impl()->offset);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using A = Compute<T>;
    dispatch_sum<T>(out.t.dtype(), [&](auto sum) {
      using G = decltype(sum);
      reduce_blocks<Sum<A>, T>(blocks, Value<A>{}, StoreSum<G>{out.t.ptr<G>(), out.beta != 0});
    });
  });
}

}  // namespace tandem::cuda_impl
