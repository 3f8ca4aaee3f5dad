#include <tandem/cuda/broadcast.h>
#include <tandem/ops/where.h>

namespace tandem::cuda_impl {
namespace {

struct Choose {
  template <class T>
  __device__ T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

struct OneSide {
  bool side;
  template <class C>
  __device__ C operator()(C g, bool condition) const {
    return condition == side ? g : C(0);
  }
};

// Values are only moved: by their size.
void forward(Tensor& y, const Tensor& condition, const Tensor& a, const Tensor& b) {
  On on(y);
  auto run = [&](auto t) {
    using T = decltype(t);
    broadcast<T, bool, T, T>(on, Choose{}, false, y, condition, a, b);
  };
  switch (size_of(y.dtype())) {
    case 8: return run(uint64_t{});
    case 4: return run(uint32_t{});
    case 2: return run(uint16_t{});
    default: return run(uint8_t{});
  }
}

void backward_data(Out gx, const Tensor& gy, const Tensor& condition, bool side) {
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    broadcast<T, T, bool>(on, OneSide{side}, gx.beta != 0, gx.t, gy, condition);
  });
}

TANDEM_KERNEL(where_forward, cuda, forward);
TANDEM_KERNEL(where_backward_data, cuda, backward_data);

}  // namespace
}  // namespace tandem::cuda_impl
