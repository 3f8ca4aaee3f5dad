/// Not installed: the ways a CPU computes a convolution. Which one is taken is decided in conv2d.cpp.
#pragma once
#include <tandem/ops/conv2d.h>

namespace tandem::detail {

/// All sizes of a convolution, from its tensors.
struct ConvShape {
  int64_t n, in, h, w;  // input images
  int64_t out, ho, wo;  // output images
  int64_t kh, kw;       // the window
  Conv2dOptions o;      // stride, padding, dilation, groups
  ConvShape(const Tensor& x, const Tensor& weight, const Tensor& y, const Conv2dOptions& options)
      : n(x.shape()[0]),
        in(x.shape()[1]),
        h(x.shape()[2]),
        w(x.shape()[3]),
        out(y.shape()[1]),
        ho(y.shape()[2]),
        wo(y.shape()[3]),
        kh(weight.shape()[2]),
        kw(weight.shape()[3]),
        o(options) {}
  int64_t group_in() const { return in / o.groups; }
  int64_t group_out() const { return out / o.groups; }
};

/// By columns: every window's elements are laid out in a row, and the convolution is a matrix product. f32 and f64; the
/// bits do not depend on the number of threads.
void conv2d_forward_columns(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o);
void conv2d_backward_data_columns(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o);
void conv2d_backward_weight_columns(const Out& gw, const Tensor& gy, const Tensor& x, const Conv2dOptions& o);

/// The weight gradient where a window has few elements, as in a net's first layer: a window's gradients stay in
/// registers while gy is read once. f32; the bits do not depend on the number of threads. Also writes the bias's
/// gradient where gb is defined.
bool conv2d_has_few_inputs(const ConvShape& s, Dtype t);
void conv2d_backward_weight_few_inputs(const Out& gw, const Out& gb, const Tensor& gy, const Tensor& x,
                                       const Conv2dOptions& o);

/// By oneDNN, f32, nothing empty. Weights go to and from a layout of the library's choice.
void conv2d_forward_onednn(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o);
void conv2d_backward_data_onednn(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o);
void conv2d_backward_weight_onednn(const Out& gw, const Out& gb, const Tensor& gy, const Tensor& x,
                                   const Conv2dOptions& o);

}  // namespace tandem::detail
