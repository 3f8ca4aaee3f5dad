/// A multi-layer perceptron on the pixels: the smallest thing that learns something.
#pragma once
#include <tandem/tandem.h>

namespace tandem::models {

struct Mlp : nn::Module {
  nn::Linear fc1{3 * 32 * 32, 256}, fc2{256, 128}, fc3{128, 10};

  Mlp() {
    add("fc1", fc1);
    add("fc2", fc2);
    add("fc3", fc3);
  }
  Tensor forward(const Tensor& x) override { return fc3(relu(fc2(relu(fc1(flatten(x, 1)))))); }
};

}  // namespace tandem::models
