#include "apps/bench/bench.h"

#include <tandem/tandem.h>

#include <benchmark/benchmark.h>

#include <functional>

namespace tandem::bench {
namespace {

// One op on its inputs: timed forward without a tape, and forward with backward.
void add(const std::string& name, std::vector<Tensor> inputs, std::function<Tensor(const std::vector<Tensor>&)> run) {
  benchmark::RegisterBenchmark((name + "/forward").c_str(), [inputs, run](benchmark::State& state) {
    NoGradGuard no_grad;
    for (auto _ : state) benchmark::DoNotOptimize(run(inputs));
  })->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark((name + "/step").c_str(), [inputs, run](benchmark::State& state) {
    std::vector<Tensor> leaves;
    for (auto& x : inputs) {
      leaves.push_back(x.detach());
      if (is_floating(x.dtype())) leaves.back().set_requires_grad();
    }
    Tensor upstream = ones_like(run(leaves).detach());
    for (auto _ : state) {
      for (auto& x : leaves) x.zero_grad();
      run(leaves).backward(upstream);
    }
  })->Unit(benchmark::kMicrosecond);
}

using In = const std::vector<Tensor>&;
Tensor images(int64_t n, int64_t c, int64_t side) {
  return randn({n, c, side, side}).contiguous(Layout::channels_last);
}

void add_all() {
  add("relu_128x64x32x32", {images(128, 64, 32)}, [](In in) { return relu(in[0]); });
  add("add_128x64x32x32", {images(128, 64, 32), images(128, 64, 32)}, [](In in) { return in[0] + in[1]; });
  add("add_bias_4096x1024", {randn({4096, 1024}), randn({1024})}, [](In in) { return in[0] + in[1]; });
  add("sigmoid_4M", {randn({4 << 20})}, [](In in) { return sigmoid(in[0]); });
  add("sum_4M", {randn({4 << 20})}, [](In in) { return sum(in[0]); });
  add("softmax_4096x1000", {randn({4096, 1000})}, [](In in) { return softmax(in[0], 1); });
  add("cross_entropy_4096x1000", {randn({4096, 1000}), randint(0, 1000, {4096})},
      [](In in) { return cross_entropy(in[0], in[1]); });
  add("matmul_512", {randn({512, 512}), randn({512, 512})}, [](In in) { return matmul(in[0], in[1]); });
  add("linear_128x8192x1024", {randn({128, 8192}), randn({1024, 8192}), randn({1024})},
      [](In in) { return linear(in[0], in[1], in[2]); });
  add("conv2d_3x3_128x3x32x32_to_64", {images(128, 3, 32), images(64, 3, 3), randn({64})},
      [](In in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); });
  add("conv2d_3x3_128x64x16x16_to_128", {images(128, 64, 16), images(128, 64, 3), randn({128})},
      [](In in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); });
  add("max_pool2d_128x64x32x32", {images(128, 64, 32)}, [](In in) { return max_pool2d(in[0], 2); });
  add("batch_norm_128x64x32x32", {images(128, 64, 32), ones({64}), zeros({64})},
      [](In in) { return batch_norm(in[0], in[1], in[2], {}, {}, {.training = true}); });
  add("layer_norm_4096x1024", {randn({4096, 1024}), ones({1024}), zeros({1024})},
      [](In in) { return layer_norm(in[0], {1024}, in[1], in[2]); });
  add("transpose_2048", {randn({2048, 2048})}, [](In in) { return in[0].t().contiguous(); });
}

}  // namespace

int ops(std::vector<std::string> args) {
  args.insert(args.begin(), "tandem-bench ops");
  std::vector<char*> argv;
  for (auto& a : args) argv.push_back(a.data());
  int argc = int(argv.size());
  manual_seed(0);
  add_all();
  benchmark::Initialize(&argc, argv.data());
  if (benchmark::ReportUnrecognizedArguments(argc, argv.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace tandem::bench
