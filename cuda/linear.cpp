#include <tandem/cuda/blas.h>
#include <tandem/cuda/column_sum.h>
#include <tandem/cuda/spread_bias.h>
#include <tandem/ops/linear.h>

namespace tandem::cuda_impl {
namespace {

// Rows of a [..., cols] tensor taken as a matrix.
int64_t rows_of(const Tensor& t) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < t.dim(); ++i) rows *= t.shape()[i];
  return rows;
}

// A sum of no terms: the bias alone, or zeros.
void put_nothing(const Out& out, const Tensor& bias = {}) {
  Tensor to = out.t;
  if (bias) return copy_into(out, spread_bias(bias, to.shape(), to.dim() - 1));
  if (out.beta == 0) fill_into(to, 0);
}

void forward(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b) {
  const int64_t m = rows_of(x), k = w.shape()[1], n = w.shape()[0];
  if (y.numel() == 0) return;
  if (k == 0) return put_nothing({y, 0}, b);
  blas_multiply(On(y), {.dtype = y.dtype(),
                        .m = m,
                        .n = n,
                        .k = k,
                        .a = {x.raw(), k},
                        .b = {w.raw(), k, true},
                        .c = y.raw(),
                        .c_stride = n,
                        .bias = b ? b.raw() : nullptr});
}

void backward_data(Out gx, const Tensor& gy, const Tensor& w) {
  const int64_t m = rows_of(gy), k = w.shape()[1], n = w.shape()[0];
  if (gx.t.numel() == 0) return;
  if (n == 0) return put_nothing(gx);
  blas_multiply(On(gy), {.dtype = gy.dtype(),
                         .m = m,
                         .n = k,
                         .k = n,
                         .a = {gy.raw(), n},
                         .b = {w.raw(), k},
                         .c = gx.t.raw(),
                         .c_stride = k,
                         .add = gx.beta != 0});
}

void backward_weight(Out gw, const Tensor& gy, const Tensor& x) {
  const int64_t m = rows_of(gy), k = gw.t.shape()[1], n = gw.t.shape()[0];
  if (gw.t.numel() == 0) return;
  if (m == 0) return put_nothing(gw);
  blas_multiply(On(gy), {.dtype = gy.dtype(),
                         .m = n,
                         .n = k,
                         .k = m,
                         .a = {gy.raw(), n, true},
                         .b = {x.raw(), k},
                         .c = gw.t.raw(),
                         .c_stride = k,
                         .add = gw.beta != 0});
}

void backward_bias(Out gb, const Tensor& gy) { column_sum(gb, gy, rows_of(gy), gy.shape().back()); }

TANDEM_KERNEL(linear_forward, cuda, forward);
TANDEM_KERNEL(linear_backward_data, cuda, backward_data);
TANDEM_KERNEL(linear_backward_weight, cuda, backward_weight);
TANDEM_KERNEL(linear_backward_bias, cuda, backward_bias);

}  // namespace
}  // namespace tandem::cuda_impl
