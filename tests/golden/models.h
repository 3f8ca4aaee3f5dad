/// The models of the training runs, with the names and the default initial weights that the reference has.
#pragma once
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/avg_pool2d.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/max_pool2d.h>
#include <tandem/ops/relu.h>

#include <memory>
#include <string>

namespace tandem::golden {

struct Toy : nn::Module {
  nn::Linear fc{5, 2};
  Toy() { add("fc", fc); }
  Tensor forward(const Tensor& x) override { return fc(x); }
};

/// Images of 32 x 32.
struct SmallNet : nn::Module {
  nn::Conv2d conv1{3, 8, {.kernel = 3, .padding = 1}}, conv2{8, 16, {.kernel = 3, .padding = 1}};
  nn::Linear fc1{16 * 8 * 8, 32}, fc2{32, 10};
  SmallNet() {
    add("conv1", conv1);
    add("conv2", conv2);
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = max_pool2d(relu(conv1(x)), 2);
    h = max_pool2d(relu(conv2(h)), 2);
    return fc2(relu(fc1(h.flatten(1))));
  }
};

/// One residual block with batch norm.
struct BnNet : nn::Module {
  nn::Conv2d conv1{3, 8, {.kernel = 3, .padding = 1, .bias = false}},
      conv2{8, 8, {.kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d bn1{8}, bn2{8};
  nn::Linear fc{8, 10};
  BnNet() {
    add("conv1", conv1);
    add("bn1", bn1);
    add("conv2", conv2);
    add("bn2", bn2);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = relu(bn1(conv1(x)));
    h = relu(bn2(conv2(h)) + h);
    return fc(adaptive_avg_pool2d(h, 1).flatten(1));
  }
};

/// Throws Error for a name that is none of these.
inline std::unique_ptr<nn::Module> make_model(const std::string& name) {
  if (name == "Toy") return std::make_unique<Toy>();
  if (name == "SmallNet") return std::make_unique<SmallNet>();
  if (name == "BnNet") return std::make_unique<BnNet>();
  throw Error("there is no model " + name);
}

}  // namespace tandem::golden
