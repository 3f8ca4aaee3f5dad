#include <tandem/nn/conv2d.h>
#include <tandem/nn/init.h>
#include <tandem/nn/repr.h>
#include <tandem/ops/conv2d.h>

#include <cmath>

namespace tandem::nn {

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Options o) : options(o) {
  check<ShapeError>(o.groups > 0 && in_channels > 0 && out_channels > 0 && in_channels % o.groups == 0 &&
                        out_channels % o.groups == 0,
                    "[Conv2d] ", in_channels, " channels to ", out_channels, " in ", o.groups, " groups");
  check<ShapeError>(o.kernel.h > 0 && o.kernel.w > 0, "[Conv2d] a kernel of ", repr(o.kernel));
  weight = empty({out_channels, in_channels / o.groups, o.kernel.h, o.kernel.w},
                 {.dtype = o.dtype, .device = o.device, .layout = Layout::channels_last});
  if (o.bias) bias = empty({out_channels}, {.dtype = o.dtype, .device = o.device});
  add("weight", weight);
  add("bias", bias);
  reset_parameters();
}

void Conv2d::reset_parameters() {
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.)});
  const double bound = 1 / std::sqrt(double(init::calculate_fan_in_and_fan_out(weight).in));
  if (bias) init::uniform_(bias, -bound, bound);
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(
      x, weight, bias,
      {.stride = options.stride, .padding = options.padding, .dilation = options.dilation, .groups = options.groups});
}

std::string Conv2d::extra_repr() const {
  const Options& o = options;
  std::string s = message(weight.size(1) * o.groups, ", ", weight.size(0), ", kernel_size=", repr(o.kernel),
                          ", stride=", repr(o.stride));
  if (o.padding != Pair(0)) s += message(", padding=", repr(o.padding));
  if (o.dilation != Pair(1)) s += message(", dilation=", repr(o.dilation));
  if (o.groups != 1) s += message(", groups=", o.groups);
  if (!bias) s += ", bias=False";
  return s;
}

}  // namespace tandem::nn
