#include <tandem/cuda/broadcast.h>
#include <tandem/cuda/fold_all.h>
#include <tandem/ops/compare.h>

#include <functional>

namespace tandem::cuda_impl {
namespace {

template <class Op>
void compare(Tensor& y, const Tensor& a, const Tensor& b) {
  On on(y);
  auto run = [&](auto t) { broadcast<bool, decltype(t), decltype(t)>(on, Op{}, false, y, a, b); };
  switch (a.dtype()) {
    case Dtype::i64: return run(int64_t{});
    case Dtype::i32: return run(int32_t{});
    case Dtype::u8: return run(uint8_t{});
    case Dtype::boolean: return run(bool{});
    default: return dispatch_real(context().op, a.dtype(), run);
  }
}

struct AsInt {
  __device__ int operator()(bool v) const { return v; }
};
struct IsOne {
  __device__ bool operator()(int v) const { return v == 1; }
};

void any(Tensor& y, const Tensor& x) {
  fold_all<Max<int>>(y.device(), AsInt{}, IsOne{}, x.numel(), y.ptr<bool>(), static_cast<const bool*>(x.ptr<bool>()));
}

TANDEM_KERNEL(eq_forward, cuda, compare<std::equal_to<>>);
TANDEM_KERNEL(ne_forward, cuda, compare<std::not_equal_to<>>);
TANDEM_KERNEL(lt_forward, cuda, compare<std::less<>>);
TANDEM_KERNEL(le_forward, cuda, compare<std::less_equal<>>);
TANDEM_KERNEL(any_forward, cuda, any);

}  // namespace
}  // namespace tandem::cuda_impl
