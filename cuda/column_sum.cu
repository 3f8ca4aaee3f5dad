#include <tandem/cuda/column_sum.h>
#include <tandem/cuda/fold_rows.h>
#include <tandem/cuda/reduce_blocks.h>

namespace tandem::cuda_impl {
namespace {

template <class T>
struct AddRow {
  const T* x;
  int64_t cols;
  template <int N>
  __device__ void operator()(int64_t row, int64_t col, Compute<T> (&sums)[N]) const {
    const auto v = load<N>(x + row * cols + col);
    for (int k = 0; k < N; ++k) sums[k] += widen(v.v[k]);
  }
};

}  // namespace

void column_sum(const Out& out, const Tensor& x, int64_t rows, int64_t cols) {
  On on(x);
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    const AddRow<T> add{x.ptr<T>(), cols};
    dispatch_sum<T>(out.t.dtype(), [&](auto sum) {
      using G = decltype(sum);
      const StoreSum<G> store{out.t.ptr<G>(), out.beta != 0};
      with_packs(
          cols, [&](auto n) { fold_rows<Sum<Compute<T>>, n()>(on, rows, cols, add, store); }, x.ptr<T>());
    });
  });
}

}  // namespace tandem::cuda_impl
