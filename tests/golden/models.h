/// The models of the training runs, with the names and the default initial weights that the reference has.
#pragma once
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/avg_pool2d.h>
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

/// Throws Error for a name that is none of these.
inline std::unique_ptr<nn::Module> make_model(const std::string& name) {
  if (name == "Toy") return std::make_unique<Toy>();
  if (name == "SmallNet") return std::make_unique<SmallNet>();
  throw Error("there is no model " + name);
}

}  // namespace tandem::golden
