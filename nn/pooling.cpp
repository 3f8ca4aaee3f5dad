#include <tandem/nn/pooling.h>
#include <tandem/nn/repr.h>

namespace tandem::nn {

Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, kernel_size, options); }

std::string MaxPool2d::extra_repr() const {
  return message("kernel_size=", repr(kernel_size), ", stride=", repr(options.stride.value_or(kernel_size)),
                 ", padding=", repr(options.padding), ", dilation=", repr(options.dilation),
                 ", ceil_mode=", repr(options.ceil_mode));
}

Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, kernel_size, options); }

std::string AvgPool2d::extra_repr() const {
  return message("kernel_size=", repr(kernel_size), ", stride=", repr(options.stride.value_or(kernel_size)),
                 ", padding=", repr(options.padding));
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) { return adaptive_avg_pool2d(x, output_size); }

std::string AdaptiveAvgPool2d::extra_repr() const { return message("output_size=", repr(output_size)); }

}  // namespace tandem::nn
