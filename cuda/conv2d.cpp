#include <tandem/cuda/column_sum.h>
#include <tandem/cuda/conv2d_direct.h>
#include <tandem/cuda/cudnn.h>
#include <tandem/cuda/runtime.h>
#include <tandem/cuda/spread_bias.h>

namespace tandem::cuda_impl {
namespace {

void forward(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  if (y.numel() == 0) return;
  if (w.numel() > 0) return cudnn_convolution_forward(y, x, w, b, o);
  // No inputs: every window sums to nothing.
  if (b)
    copy_into({y, 0}, spread_bias(b, y.shape(), 1));
  else
    fill_into(y, 0);
}

void backward_data(Out gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o) {
  if (gx.t.numel() == 0) return;
  if (gy.numel() == 0) {
    if (gx.beta == 0) fill_into(gx.t, 0);
  } else if (!cudnn_convolution_backward_data(gx, gy, w, o)) {
    conv2d_backward_data_direct(gx, gy, w, o);
  }
}

void backward_bias(Out gb, const Tensor& gy) {
  const Dims& s = gy.shape();
  column_sum(gb, gy, s[0] * s[2] * s[3], s[1]);
}

void backward_weight(Out gw, Out gb, const Tensor& gy, const Tensor& x, const Conv2dOptions& o) {
  if (gb.t) backward_bias(gb, gy);
  if (gw.t.numel() == 0) return;
  if (gy.numel() == 0) {
    if (gw.beta == 0) fill_into(gw.t, 0);
  } else if (!cudnn_convolution_backward_weight(gw, gy, x, o)) {
    conv2d_backward_weight_direct(gw, gy, x, o);
  }
}

TANDEM_KERNEL(conv2d_forward, cuda, forward);
TANDEM_KERNEL(conv2d_backward_data, cuda, backward_data);
TANDEM_KERNEL(conv2d_backward_weight, cuda, backward_weight);
TANDEM_KERNEL(conv2d_backward_bias, cuda, backward_bias);

}  // namespace
}  // namespace tandem::cuda_impl
