// PowerSGD: what it loses, what it does not, and that ranks stay alike.
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/generator.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/compare.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/matmul.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/power_sgd_hook.h>
#include <tandem/parallel/run_replicas.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

// A weight and a bias whose gradients the test chooses.
struct Chosen : nn::Module {
  Tensor weight, bias;
  explicit Chosen(Dtype t = Dtype::f64) : weight(zeros({6, 8}, {.dtype = t})), bias(zeros({5}, {.dtype = t})) {
    add("weight", weight);
    add("bias", bias);
  }
  void backward(const Tensor& weight_grad, const Tensor& bias_grad) {
    zero_grad();
    (sum(weight * weight_grad.to(current_device())) + sum(bias * bias_grad.to(current_device()))).backward();
  }
};

Tensor drawn(uint64_t seed, const Dims& shape, Dtype t = Dtype::f64) {
  manual_seed(seed);
  return randn(shape, {.device = cpu()}).to(t);
}
Tensor gradient(const Tensor& parameter) { return parameter.grad().to(cpu()).to(Dtype::f64); }

PowerSGDOptions at_once(int64_t rank = 1) {
  return {.matrix_approximation_rank = rank, .start_powerSGD_iter = 0, .min_compression_rate = 0};
}

double norm(const Tensor& t) { return std::sqrt(sum(t * t).item<double>()); }

}  // namespace

TEST_CASE("a mean gradient of rank r is exact after two steps of rank r, biases always") {
  for (int64_t rank : {1, 2, 6})
    run_replicas(2, [&](int r) {
      Chosen net;
      DistributedDataParallel ddp(net);
      ddp.register_comm_hook(power_sgd_hook(at_once(rank)));
      Tensor a = drawn(1, {6, rank}), b = drawn(2, {rank, 8});
      Tensor mean_weight = matmul(a, b), mean_bias = drawn(3, {5});
      const double mine = r == 0 ? 0.5 : 1.5;
      for (int step = 0; step < 2; ++step) {
        net.backward(mean_weight * mine, mean_bias * mine);
        CHECK(max_difference(gradient(net.weight), mean_weight) < 1e-12);
        CHECK(max_difference(gradient(net.bias), mean_bias) < 1e-14);
      }
    });
}

TEST_CASE("before start_powerSGD_iter and below min_compression_rate gradients are not touched") {
  run_replicas(2, [](int r) {
    Chosen plain, later, small;
    DistributedDataParallel a(plain), b(later), c(small);
    b.register_comm_hook(power_sgd_hook({.start_powerSGD_iter = 2, .min_compression_rate = 0}));
    // 48 numbers as 14: a rate of 3.4.
    c.register_comm_hook(power_sgd_hook({.start_powerSGD_iter = 0, .min_compression_rate = 3.5}));
    for (int step = 0; step < 3; ++step) {
      Tensor w = drawn(uint64_t(10 * step + r), {6, 8}), bias = drawn(uint64_t(50 + 10 * step + r), {5});
      for (Chosen* net : {&plain, &later, &small}) net->backward(w, bias);
      CHECK(same_bits(plain.weight.grad(), later.weight.grad()) == (step < 2));
      CHECK(same_bits(plain.weight.grad(), small.weight.grad()));
      CHECK(same_bits(plain.bias.grad(), later.bias.grad()));
    }
  });
}

TEST_CASE("uneven samples weigh in both rounds; a rank without any is not read, and keeps its error") {
  run_replicas(3, [](int r) {
    Chosen net;
    DistributedDataParallel ddp(net);
    ddp.register_comm_hook(power_sgd_hook(at_once(6)));
    Tensor w[] = {drawn(1, {6, 8}), full({6, 8}, std::nan(""), {.dtype = Dtype::f64, .device = cpu()}),
                  drawn(2, {6, 8})};
    ddp.samples(r == 0 ? 1 : r == 1 ? 0 : 3);
    net.backward(w[r], zeros({5}, {.dtype = Dtype::f64, .device = cpu()}));
    CHECK(max_difference(gradient(net.weight), w[0] * 0.25 + w[2] * 0.75) < 1e-12);
    // The NaN is not in anybody's error.
    ddp.samples(1);
    net.backward(w[0], zeros({5}, {.dtype = Dtype::f64, .device = cpu()}));
    CHECK(max_difference(gradient(net.weight), w[0]) < 1e-12);
  });
}

TEST_CASE("with error feedback nothing is lost for good") {
  constexpr int kSteps = 40;
  double distance[2] = {};
  for (bool feedback : {false, true})
    run_replicas(2, [&](int r) {
      Chosen net;
      DistributedDataParallel ddp(net);
      auto options = at_once();
      options.use_error_feedback = feedback;
      ddp.register_comm_hook(power_sgd_hook(options));
      Tensor mine = drawn(uint64_t(1 + r), {6, 8}), all = (drawn(1, {6, 8}) + drawn(2, {6, 8})) / 2.0;
      Tensor total = zeros({6, 8}, {.dtype = Dtype::f64, .device = cpu()});
      for (int step = 0; step < kSteps; ++step) {
        net.backward(mine, zeros({5}, {.dtype = Dtype::f64, .device = cpu()}));
        total = total + gradient(net.weight);
      }
      if (r == 0) distance[feedback] = norm(total / double(kSteps) - all) / norm(all);
    });
  // Without, what is not along the first singular vectors never arrives.
  CHECK(distance[false] > 0.5);
  CHECK(distance[true] < 0.15);
}

TEST_CASE("no warm start: another approximation each step, the same on all ranks") {
  run_replicas(2, [](int r) {
    Chosen net(Dtype::f32);
    DistributedDataParallel ddp(net);
    auto options = at_once();
    options.warm_start = options.use_error_feedback = false;
    ddp.register_comm_hook(power_sgd_hook(options));
    Tensor mine = drawn(uint64_t(1 + r), {6, 8}, Dtype::f32), none = zeros({5}, {.device = cpu()});
    net.backward(mine, none);
    Tensor first = gradient(net.weight);
    net.backward(mine, none);
    CHECK(max_difference(first, gradient(net.weight)) > 1e-3);
    Tensor all = zeros({2, 6, 8});
    ddp.process_group().communicator().all_gather(all, net.weight.grad().contiguous());
    CHECK(same_bits(all.select(0, 0), all.select(0, 1)));
  });
}

TEST_CASE("gradients of zero, and ones that are not finite, leave it in order") {
  run_replicas(2, [](int r) {
    Chosen net;
    DistributedDataParallel ddp(net);
    ddp.register_comm_hook(power_sgd_hook(at_once(2)));
    const TensorOptions f64{.dtype = Dtype::f64, .device = cpu()};
    Tensor none = zeros({5}, f64), low = matmul(drawn(1, {6, 2}), drawn(2, {2, 8}));
    net.backward(zeros({6, 8}, f64), none);
    CHECK(equal(gradient(net.weight), zeros({6, 8}, f64)));
    Tensor broken = low.clone();
    if (r == 1) broken.span<double>()[3] = std::numeric_limits<double>::infinity();
    net.backward(broken, none);
    CHECK_FALSE(all(isfinite(gradient(net.weight))).item<bool>());
    net.backward(low, none);
    CHECK(max_difference(gradient(net.weight), low) < 1e-12);
  });
}

TEST_CASE("a network learns what it learns without, and all ranks have the same parameters") {
  struct Net : nn::Module {
    nn::Conv2d conv{2, 8, {.kernel = 3, .padding = 1}};
    nn::Linear fc{8 * 6 * 6, 4};
    Net() {
      add("conv", conv);
      add("fc", fc);
    }
    Tensor forward(const Tensor& x) override { return fc(flatten(relu(conv(x)), 1)); }
  };
  Tensor x = drawn(5, {32, 2, 6, 6}, Dtype::f32);
  manual_seed(6);
  Tensor y = randint(0, 4, {32}, {.dtype = Dtype::i64, .device = cpu()});
  float last[2] = {};
  for (bool compressed : {false, true})
    run_replicas(2, [&](int r) {
      manual_seed(1);
      Net net;
      nn::SGD sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
      DistributedDataParallel ddp(net,
                                  {.bucket_cap_mb = 0.001, .first_bucket_cap_mb = 0.001, .check_parameters_every = 10});
      if (compressed) ddp.register_comm_hook(power_sgd_hook({.start_powerSGD_iter = 5}));
      for (int step = 0; step < 40; ++step) {
        sgd.zero_grad();
        Tensor loss = cross_entropy(ddp(x.narrow(0, 16 * r, 16).to(current_device())),
                                    y.narrow(0, 16 * r, 16).to(current_device()));
        loss.backward();
        sgd.step();
        if (r == 0) last[compressed] = loss.item();
      }
    });
  CHECK(last[0] < 0.1f);
  CHECK(last[1] < 0.1f);
}

TEST_CASE("options that make no sense") {
  CHECK_THROWS_AS(power_sgd_hook({.matrix_approximation_rank = 0}), Error);
  CHECK_THROWS_AS(power_sgd_hook({.start_powerSGD_iter = -1}), Error);
  CHECK_THROWS_AS(power_sgd_hook({.min_compression_rate = -1}), Error);
}
