/// The Net: two 3x3 convolutions, each with ReLU and 2x2 max-pooling, then two linear layers.
#pragma once
#include <tandem/tandem.h>

namespace tandem::models {

struct Net : nn::Module {
  nn::Conv2d conv1{3, 64, {.kernel = 3, .padding = 1}}, conv2{64, 128, {.kernel = 3, .padding = 1}};
  nn::Linear fc1{128 * 8 * 8, 1024}, fc2{1024, 10};

  Net() {
    add("conv1", conv1);
    add("conv2", conv2);
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override {   // [n,3,32,32]
    Tensor h = max_pool2d(relu(conv1(x)), 2);  // [n,64,16,16]
    h = max_pool2d(relu(conv2(h)), 2);         // [n,128,8,8]
    return fc2(relu(fc1(flatten(h, 1))));      // [n,10]
  }
};

}  // namespace tandem::models
