#include <tandem/cuda/reduce_blocks.h>
#include <tandem/ops/sum_to.h>

namespace tandem::cuda_impl {
namespace {

// The dimensions along which y was stretched to x's shape.
Dims stretched(const Dims& y, const Dims& x) {
  Dims dims;
  const int skip = x.size() - y.size();
  for (int d = 0; d < x.size(); ++d)
    if (d < skip || (y[d - skip] == 1 && x[d] != 1)) dims.push_back(d);
  return dims;
}

void sum_to_cuda(Out out, const Tensor& x) {
  const Dims dims = stretched(out.t.shape(), x.shape());
  if (dims.empty()) return copy_into(out, x);
  const Tensor blocks = detail::blocks_of(x, detail::DimSet("sum_to", dims, x.dim()));
  in_layout(out, Layout::row_major, [&](Out y) {
    dispatch_float(x.dtype(), [&](auto t) {
      using T = decltype(t);
      using A = Compute<T>;
      reduce_blocks<Sum<A>, T>(blocks, Value<A>{}, StoreSum<T>{y.t.ptr<T>(), y.beta != 0});
    });
  });
}

TANDEM_KERNEL(sum_to_forward, cuda, sum_to_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
