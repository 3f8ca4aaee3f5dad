/// A small residual net with batch norm and dropout: for tests, since it has state of every kind and is quick.
#pragma once
#include <tandem/tandem.h>

namespace tandem::models {

struct Small : nn::Module {
  nn::Conv2d conv1{3, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{8};
  nn::Conv2d conv2{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn2{8};
  nn::Dropout dropout{0.1};
  nn::Linear fc{8, 10};

  Small() {
    add("conv1", conv1);
    add("bn1", bn1);
    add("conv2", conv2);
    add("bn2", bn2);
    add("dropout", dropout);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = relu(bn1(conv1(x)));  // [n,8,32,32]
    h = relu(bn2(conv2(h)) + h);
    h = flatten(adaptive_avg_pool2d(h, 1), 1);  // [n,8]
    return fc(dropout(h));
  }
};

}  // namespace tandem::models
