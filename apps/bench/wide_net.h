/// The Net at any width: 64 is models::Net.
#pragma once
#include <tandem/tandem.h>

namespace tandem::bench {

struct WideNet : nn::Module {
  int64_t width;
  nn::Conv2d conv1{3, width, {.kernel = 3, .padding = 1}}, conv2{width, 2 * width, {.kernel = 3, .padding = 1}};
  nn::Linear fc1{2 * width * 8 * 8, 16 * width}, fc2{16 * width, 10};

  explicit WideNet(int64_t w) : width(w) {
    add("conv1", conv1);
    add("conv2", conv2);
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override {   // [n,3,32,32]
    Tensor h = max_pool2d(relu(conv1(x)), 2);  // [n,width,16,16]
    h = max_pool2d(relu(conv2(h)), 2);         // [n,2*width,8,8]
    return fc2(relu(fc1(flatten(h, 1))));      // [n,10]
  }
};

}  // namespace tandem::bench
