#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/column_sum.h>
#include <tandem/ops/gemm.h>
#include <tandem/ops/linear.h>
#include <tandem/ops/widen.h>

namespace tandem {

constexpr OpId kLinear{"linear"};

Tensor linear(const Tensor& x_in, const Tensor& w_in, const Tensor& b_in) {
  auto [x, w, b] = enter(kLinear, x_in, w_in, b_in);
  check<ShapeError>(w.dim() == 2, "[linear] the weight is [out, in], got ", w.shape());
  check<ShapeError>(x.dim() >= 1 && x.shape().back() == w.shape()[1], "[linear] input ", x.shape(), ", weight ",
                    w.shape(), " wants a last dimension of ", w.shape()[1]);
  check<ShapeError>(!b || (b.dim() == 1 && b.shape()[0] == w.shape()[0]), "[linear] bias ", b ? b.shape() : Dims(),
                    ", weight ", w.shape(), " wants [", w.shape()[0], "]");
  check<DtypeError>(is_floating(x.dtype()) && x.dtype() == w.dtype() && (!b || b.dtype() == x.dtype()),
                    "[linear] input ", x.dtype(), ", weight ", w.dtype(), ", bias ", b ? b.dtype() : x.dtype());
  require_same_device("linear", {&x, &w, &b});
  Tensor xd = as_layout(x, Layout::row_major), wd = as_layout(w, Layout::row_major);
  Dims shape = x.shape();
  shape[shape.size() - 1] = w.shape()[0];
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
  linear_forward(x.device(), y, xd, wd, b ? as_layout(b, Layout::row_major) : b);
  return record("linear", y, {x, w, b}, [x = Saved("linear", xd), w = Saved("linear", wd)](Tensor& gy, Targets t) {
    Tensor g = as_layout(gy, Layout::row_major);
    if (t[1]) linear_backward_weight(g.device(), t[1].out(), g, x());
    if (t[2]) linear_backward_bias(g.device(), t[2].out(), g);
    if (t[0]) in_layout(t[0].out(), Layout::row_major, [&](Out gx) { linear_backward_data(g.device(), gx, g, w()); });
  });
}

namespace {

// Rows of a [..., cols] tensor taken as a matrix.
int64_t rows_of(const Tensor& t) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < t.dim(); ++i) rows *= t.shape()[i];
  return rows;
}

void linear_forward_cpu(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b) {
  dispatch_real("linear", x.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t k = w.shape()[1], n = w.shape()[0];
    detail::gemm<T>({.m = rows_of(x),
                     .n = n,
                     .k = k,
                     .a = {x.ptr<T>(), k},
                     .b = {w.ptr<T>(), k, true},
                     .c = y.ptr<T>(),
                     .c_stride = n,
                     .bias = b ? b.ptr<T>() : nullptr,
                     .device = x.device()});
  });
}

void linear_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& w) {
  dispatch_real("linear", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t k = w.shape()[1], n = w.shape()[0];
    detail::gemm<T>({.m = rows_of(gy),
                     .n = k,
                     .k = n,
                     .a = {gy.ptr<T>(), n},
                     .b = {w.ptr<T>(), k},
                     .c = gx.t.ptr<T>(),
                     .c_stride = k,
                     .add = gx.beta != 0,
                     .device = gy.device()});
  });
}

void linear_backward_weight_cpu(Out gw, const Tensor& gy, const Tensor& x) {
  dispatch_real("linear", gy.dtype(), [&](auto t) {
    using T = decltype(t);
    const int64_t k = gw.t.shape()[1], n = gw.t.shape()[0];
    detail::gemm<T>({.m = n,
                     .n = k,
                     .k = rows_of(gy),
                     .a = {gy.ptr<T>(), n, true},
                     .b = {x.ptr<T>(), k},
                     .c = gw.t.ptr<T>(),
                     .c_stride = k,
                     .add = gw.beta != 0,
                     .device = gy.device()});
  });
}

void linear_backward_bias_cpu(Out gb, const Tensor& gy) { detail::column_sum(gb, gy, rows_of(gy), gy.shape().back()); }

TANDEM_CPU_KERNEL(linear_forward, linear_forward_cpu);
TANDEM_CPU_KERNEL(linear_backward_data, linear_backward_data_cpu);
TANDEM_CPU_KERNEL(linear_backward_weight, linear_backward_weight_cpu);
TANDEM_CPU_KERNEL(linear_backward_bias, linear_backward_bias_cpu);

}  // namespace
}  // namespace tandem
