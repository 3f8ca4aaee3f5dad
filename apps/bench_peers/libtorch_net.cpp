// Peer: the Net's step and a tiny model's step with libtorch in C++. Prints a line of JSON. bench_peers.py compiles it
// against the libtorch that PyTorch's wheel holds.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::MemoryFormat;
using torch::Tensor;

struct Net : nn::Module {
  nn::Conv2d conv1{nn::Conv2dOptions(3, 64, 3).padding(1)}, conv2{nn::Conv2dOptions(64, 128, 3).padding(1)};
  nn::Linear fc1{128 * 8 * 8, 1024}, fc2{1024, 10};
  Net() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return fc2(torch::relu(fc1(x.flatten(1))));
  }
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class F>
double best_seconds(int runs, F&& f) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

double net_step_seconds(int threads, int batch) {
  torch::set_num_threads(threads);
  Net net;
  for (auto& p : net.parameters())
    if (p.dim() == 4) p.set_data(p.contiguous(MemoryFormat::ChannelsLast));
  Tensor x = torch::randn({batch, 3, 32, 32}).contiguous(MemoryFormat::ChannelsLast);
  Tensor y = torch::randint(10, {batch}, torch::kLong);
  optim::SGD optimizer(net.parameters(), optim::SGDOptions(0.01).momentum(0.9).weight_decay(5e-4));
  return best_seconds(18, [&] {
    optimizer.zero_grad();
    torch::cross_entropy_loss(net.forward(x), y).backward();
    optimizer.step();
  });
}

double toy_step_seconds() {
  torch::set_num_threads(1);
  nn::Linear net(5, 2);
  Tensor x = torch::randn({30, 5}), y = torch::randn({30, 2});
  optim::SGD optimizer(net->parameters(), 0.01);
  constexpr int kSteps = 200;
  return best_seconds(30,
                      [&] {
                        for (int i = 0; i < kSteps; ++i) {
                          optimizer.zero_grad();
                          torch::mse_loss(net(x), y).backward();
                          optimizer.step();
                        }
                      }) /
         kSteps;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, batch = 128;
  std::printf("{\"version\": \"%s\", \"images_s\": %.1f, \"linear_sgd\": %.2f}\n", TORCH_VERSION,
              batch / net_step_seconds(threads, batch), toy_step_seconds() * 1e6);
}
