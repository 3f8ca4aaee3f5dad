/// Not installed: the formulas of elementwise_loss.h, one struct each, for the kernels of all devices. T is what
/// elements are computed in, M where exp and log1p come from; operator() is the loss of x and y, gradient() its
/// derivative by x.
#pragma once
#include <tandem/core/export.h>

#include <cmath>

namespace tandem::detail {

template <class T, class M>
struct MseLoss {
  TANDEM_HOST_DEVICE T operator()(T x, T y) const {
    const T d = x - y;
    return d * d;
  }
  TANDEM_HOST_DEVICE T gradient(T x, T y) const { return T(2) * (x - y); }
};

template <class T, class M>
struct L1Loss {
  TANDEM_HOST_DEVICE T operator()(T x, T y) const { return std::abs(x - y); }
  TANDEM_HOST_DEVICE T gradient(T x, T y) const {
    const T d = x - y;
    return T(d > T(0)) - T(d < T(0));
  }
};

template <class T, class M>
struct SmoothL1Loss {
  explicit SmoothL1Loss(double beta) : beta_(T(beta)) {}
  TANDEM_HOST_DEVICE T operator()(T x, T y) const {
    const T d = std::abs(x - y);
    const T curve = T(0.5) * d * d / beta_, line = d - T(0.5) * beta_;
    return d < beta_ ? curve : line;
  }
  TANDEM_HOST_DEVICE T gradient(T x, T y) const {
    const T slope = (x - y) / beta_, low = slope < T(-1) ? T(-1) : slope;
    return low > T(1) ? T(1) : low;
  }

 private:
  T beta_;
};

/// With logits: -y log sigmoid(x) - (1 - y) log(1 - sigmoid(x)), from e^-|x|, which never overflows.
template <class T, class M>
struct BinaryCrossEntropy {
  TANDEM_HOST_DEVICE T operator()(T x, T y) const {
    return (x < T(0) ? T(0) : x) - x * y + M::log1p(M::exp(-std::abs(x)));
  }
  TANDEM_HOST_DEVICE T gradient(T x, T y) const { return T(1) / (T(1) + M::exp(-x)) - y; }
  TANDEM_HOST_DEVICE static T gradient_by_target(T x) { return -x; }
};

}  // namespace tandem::detail
