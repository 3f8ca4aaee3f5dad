#include <tandem/cuda/pointwise.h>
#include <tandem/ops/relu.h>

namespace tandem::cuda_impl {
namespace {

struct Relu {
  template <class T>
  __device__ T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};

struct ReluGradient {
  template <class T>
  __device__ T operator()(T gy, T y) const {
    return y <= T(0) ? T(0) : gy;
  }
};

void forward(Tensor& y, const Tensor& x) {
  On on(y);
  dispatch_float(y.dtype(), [&](auto t) {
    using T = decltype(t);
    pointwise(on, Relu{}, false, x.numel(), y.ptr<T>(), x.ptr<T>());
  });
}

void backward_data(Out gx, const Tensor& gy, const Tensor& y) {
  On on(y);
  dispatch_float(y.dtype(), [&](auto t) {
    using T = decltype(t);
    pointwise(on, ReluGradient{}, gx.beta != 0, y.numel(), gx.t.ptr<T>(), gy.ptr<T>(), y.ptr<T>());
  });
}

TANDEM_KERNEL(relu_forward, cuda, forward);
TANDEM_KERNEL(relu_backward_data, cuda, backward_data);

}  // namespace
}  // namespace tandem::cuda_impl
