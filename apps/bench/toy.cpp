#include "apps/bench/bench.h"

#include <tandem/tandem.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace tandem::bench {
namespace {

// Best of several runs of many steps, in microseconds a step.
template <class Step>
double microseconds(Step&& step) {
  constexpr int kSteps = 5000;
  auto ms = time_calls(12, 2, [&] {
    for (int i = 0; i < kSteps; ++i) step();
  });
  return ms.front() * 1e3 / kSteps;
}

template <class Optimizer, class Options>
double linear(Options options) {
  nn::Linear fc(5, 2);
  Optimizer optimizer(fc.parameters(), options);
  Tensor x = randn({30, 5}), y = randn({30, 2});
  return microseconds([&] {
    optimizer.zero_grad();
    mse_loss(fc(x), y).backward();
    optimizer.step();
  });
}

struct Mlp : nn::Module {
  nn::Linear fc1{32, 64}, fc2{64, 64}, fc3{64, 10};
  Mlp() {
    add("fc1", fc1);
    add("fc2", fc2);
    add("fc3", fc3);
  }
  Tensor forward(const Tensor& x) override { return fc3(relu(fc2(relu(fc1(x))))); }
};

double mlp() {
  Mlp net;
  nn::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  Tensor x = randn({32, 32}), y = randint(0, 10, {32});
  return microseconds([&] {
    optimizer.zero_grad();
    cross_entropy(net(x), y).backward();
    optimizer.step();
  });
}

}  // namespace

int toy(bool json) {
  set_num_threads(1);
  nlohmann::ordered_json r = {{"linear_sgd", linear<nn::SGD>(nn::SGD::Options{.lr = 0.01})},
                              {"linear_adam", linear<nn::Adam>(nn::Adam::Options{.lr = 0.01})},
                              {"mlp_sgd_mom", mlp()}};
  if (json) {
    std::cout << r.dump() << '\n';
    return 0;
  }
  std::cout << machine();
  for (auto& [name, us] : r.items()) std::printf("%-12s %8.2f us a step\n", name.c_str(), us.get<double>());
  return 0;
}

}  // namespace tandem::bench
