#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/column_sum.h>
#include <tandem/ops/conv2d.h>
#include <tandem/ops/conv2d_kernels.h>
#include <tandem/ops/images.h>
#include <tandem/ops/widen.h>

namespace tandem {

constexpr OpId kConv2d{"conv2d"};

namespace {

int64_t output_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  check<ShapeError>(stride > 0 && dilation > 0 && padding >= 0, "[conv2d] stride ", stride, ", dilation ", dilation,
                    ", padding ", padding, ": the first two must be at least 1, the last at least 0");
  const int64_t extent = dilation * (kernel - 1) + 1;
  check<ShapeError>(kernel > 0 && size + 2 * padding >= extent, "[conv2d] a kernel of ", kernel, " with dilation ",
                    dilation, " does not fit an image of ", size, " with padding ", padding);
  return (size + 2 * padding - extent) / stride + 1;
}

void check_inputs(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  detail::require_images("conv2d", x);
  check<ShapeError>(w.dim() == 4, "[conv2d] the weight is [out, in / groups, kh, kw], got ", w.shape());
  const int64_t in = x.shape()[x.dim() - 3], out = w.shape()[0];
  check<ShapeError>(o.groups > 0 && out % o.groups == 0, "[conv2d] ", o.groups, " groups, weight ", w.shape(), " has ",
                    out, " outputs");
  check<ShapeError>(in == w.shape()[1] * o.groups, "[conv2d] input has ", in, " channels, weight ", w.shape(),
                    o.groups == 1 ? std::string() : message(" in ", o.groups, " groups"), " wants ",
                    w.shape()[1] * o.groups);
  check<ShapeError>(!b || b.shape() == Dims{out}, "[conv2d] bias ", b ? b.shape() : Dims(), ", weight ", w.shape(),
                    " wants [", out, "]");
  check<DtypeError>(is_floating(x.dtype()) && x.dtype() == w.dtype() && (!b || b.dtype() == x.dtype()),
                    "[conv2d] input ", x.dtype(), ", weight ", w.dtype(), ", bias ", b ? b.dtype() : x.dtype());
  require_same_device("conv2d", {&x, &w, &b});
}

}  // namespace

Tensor conv2d(const Tensor& x_in, const Tensor& w_in, const Tensor& b_in, Conv2dOptions o) {
  auto [x, w, b] = enter(kConv2d, x_in, w_in, b_in);
  check_inputs(x, w, b, o);
  Tensor images = detail::as_images(x), weight = as_dense(w);
  const Dims &xs = images.shape(), &ws = weight.shape();
  Tensor y = empty({xs[0], ws[0], output_size(xs[2], ws[2], o.stride.h, o.padding.h, o.dilation.h),
                    output_size(xs[3], ws[3], o.stride.w, o.padding.w, o.dilation.w)},
                   {.dtype = x.dtype(), .device = x.device(), .layout = Layout::channels_last});
  conv2d_forward(x.device(), y, images, weight, b ? as_layout(b, Layout::row_major) : b, o);
  return record("conv2d", detail::as_result(y, x.dim()), {x, w, b},
                [x = Saved("conv2d", images), w = Saved("conv2d", weight), o](Tensor& gy, Targets t) {
                  Tensor g = detail::as_images(gy);
                  const Device d = g.device();
                  if (t[1])
                    conv2d_backward_weight(d, t[1].out(), t[2] ? t[2].out() : Out(), g, x(), o);
                  else if (t[2])
                    conv2d_backward_bias(d, t[2].out(), g);
                  if (t[0]) detail::write_images(t[0].out(), [&](Out gx) { conv2d_backward_data(d, gx, g, w(), o); });
                });
}

namespace {

// oneDNN takes f32 of which no size is zero.
bool by_onednn([[maybe_unused]] const Tensor& images, [[maybe_unused]] const Tensor& w) {
#ifdef TANDEM_ONEDNN
  return images.dtype() == Dtype::f32 && images.numel() > 0 && w.numel() > 0;
#else
  return false;
#endif
}

void conv2d_forward_cpu(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  by_onednn(x, w) ? detail::conv2d_forward_onednn(y, x, w, b, o) : detail::conv2d_forward_columns(y, x, w, b, o);
}

void conv2d_backward_data_cpu(Out gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o) {
  by_onednn(gx.t, w) ? detail::conv2d_backward_data_onednn(gx, gy, w, o)
                     : detail::conv2d_backward_data_columns(gx, gy, w, o);
}

void conv2d_backward_bias_cpu(Out gb, const Tensor& gy) {
  const Dims& s = gy.shape();
  detail::column_sum(gb, gy, s[0] * s[2] * s[3], s[1]);
}

void conv2d_backward_weight_cpu(Out gw, Out gb, const Tensor& gy, const Tensor& x, const Conv2dOptions& o) {
  if (detail::conv2d_has_few_inputs(detail::ConvShape(x, gw.t, gy, o), x.dtype()))
    return detail::conv2d_backward_weight_few_inputs(gw, gb, gy, x, o);
  if (by_onednn(x, gw.t)) return detail::conv2d_backward_weight_onednn(gw, gb, gy, x, o);
  detail::conv2d_backward_weight_columns(gw, gy, x, o);
  if (gb.t) conv2d_backward_bias_cpu(gb, gy);
}

TANDEM_CPU_KERNEL(conv2d_forward, conv2d_forward_cpu);
TANDEM_CPU_KERNEL(conv2d_backward_data, conv2d_backward_data_cpu);
TANDEM_CPU_KERNEL(conv2d_backward_weight, conv2d_backward_weight_cpu);
TANDEM_CPU_KERNEL(conv2d_backward_bias, conv2d_backward_bias_cpu);

}  // namespace
}  // namespace tandem
