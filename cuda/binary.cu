#include <tandem/cuda/broadcast.h>
#include <tandem/ops/arithmetic.h>
#include <tandem/ops/binary.h>

namespace tandem::cuda_impl {
namespace {

using detail::number, detail::plus, detail::times;

template <class C>
struct AddScaled {
  C alpha;
  __device__ C operator()(C a, C b) const { return plus(a, times(alpha, b)); }
};

struct Multiply {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return times(a, b);
  }
};

struct Divide {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a / b;
  }
};

struct DivisorGradient {
  template <class C>
  __device__ C operator()(C g, C a, C b) const {
    return -g * (a / b / b);
  }
};

// NaN wins.
struct Maximum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a >= b || a != a ? a : b;
  }
};
struct Minimum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a <= b || a != a ? a : b;
  }
};

struct MaximumGradient {
  template <class C>
  __device__ C operator()(C g, C a, C b) const {
    return a < b ? C(0) : a == b ? g * C(0.5) : g;
  }
};

template <class C>
struct Scale {
  C factor;
  __device__ C operator()(C x) const { return times(x, factor); }
};

template <class C>
struct Shift {
  C value;
  __device__ C operator()(C x) const { return plus(x, value); }
};

void add(Tensor& y, const Tensor& a, const Tensor& b, double alpha) {
  On on(y);
  dispatch_all(y.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    broadcast<T, T, T>(on, AddScaled<C>{number<C>(alpha)}, false, y, a, b);
  });
}

template <class Op>
void of_any(Tensor& y, const Tensor& a, const Tensor& b) {
  On on(y);
  dispatch_all(y.dtype(), [&](auto t) {
    using T = decltype(t);
    broadcast<T, T, T>(on, Op{}, false, y, a, b);
  });
}

void multiply(Out y, const Tensor& a, const Tensor& b) {
  On on(a);
  dispatch_all(a.dtype(), [&](auto t) {
    using T = decltype(t);
    broadcast<T, T, T>(on, Multiply{}, y.beta != 0, y.t, a, b);
  });
}

void divide(Out y, const Tensor& a, const Tensor& b) {
  On on(a);
  dispatch_float(a.dtype(), [&](auto t) {
    using T = decltype(t);
    broadcast<T, T, T>(on, Divide{}, y.beta != 0, y.t, a, b);
  });
}

template <class Op>
void gradient(Out g, const Tensor& gy, const Tensor& a, const Tensor& b) {
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    broadcast<T, T, T, T>(on, Op{}, g.beta != 0, g.t, gy, a, b);
  });
}

void scale(Out y, const Tensor& x, double factor) {
  On on(x);
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    pointwise(on, Scale<C>{number<C>(factor)}, y.beta != 0, x.numel(), y.t.ptr<T>(), x.ptr<T>());
  });
}

void shift(Tensor& y, const Tensor& x, double value) {
  On on(x);
  dispatch_all(x.dtype(), [&](auto t) {
    using T = decltype(t);
    using C = Compute<T>;
    pointwise(on, Shift<C>{number<C>(value)}, false, x.numel(), y.ptr<T>(), x.ptr<T>());
  });
}

TANDEM_KERNEL(add_forward, cuda, add);
TANDEM_KERNEL(mul_forward, cuda, multiply);
TANDEM_KERNEL(div_forward, cuda, divide);
TANDEM_KERNEL(div_backward_divisor, cuda, gradient<DivisorGradient>);
TANDEM_KERNEL(maximum_forward, cuda, of_any<Maximum>);
TANDEM_KERNEL(minimum_forward, cuda, of_any<Minimum>);
TANDEM_KERNEL(maximum_backward_data, cuda, gradient<MaximumGradient>);
TANDEM_KERNEL(scale_forward, cuda, scale);
TANDEM_KERNEL(shift_forward, cuda, shift);

}  // namespace
}  // namespace tandem::cuda_impl
