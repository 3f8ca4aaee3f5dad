// Synchronised batch norm: ranks normalise as one device does that has all the samples.
#include "tests/support/op_case.h"

#include <tandem/core/generator.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/cross_entropy.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/distributed_data_parallel.h>
#include <tandem/parallel/run_replicas.h>
#include <tandem/parallel/sync_batch_norm.h>

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <numeric>

using namespace tandem;
using namespace tandem::test;

namespace {

struct NormNet : nn::Module {
  nn::Conv2d conv1{2, 4, {.kernel = 3, .padding = 1}}, conv2{4, 3, {.kernel = 3}};
  nn::BatchNorm2d bn1, bn2{3};
  nn::Linear fc{3 * 2 * 2, 5};
  explicit NormNet(nn::BatchNorm2d::Options o = {}) : bn1(4, o) {
    add("conv1", conv1);
    add("bn1", bn1);
    add("conv2", conv2);
    add("bn2", bn2);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(flatten(relu(bn2(conv2(relu(bn1(conv1(x)))))), 1)); }
};

constexpr int kSteps = 2;
using State = std::map<std::string, std::vector<double>>;

State state_of(const nn::Module& m) {
  State s;
  for (auto& [name, t] : m.state_dict()) s[name] = t.to_vector<double>();
  for (auto& [name, t] : m.named_parameters()) s["gradient of " + name] = t.grad().to_vector<double>();
  return s;
}

void check_close(const State& a, const State& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (auto& [name, values] : a) {
    CAPTURE(name);
    const auto& other = b.at(name);
    double largest = 1e-3, worst = 0;  // the convolutions' biases have no gradient: a norm follows
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      worst = std::max(worst, std::abs(values[i] - other[i]));
    }
    CHECK(worst <= tolerance * largest);
  }
}

// A mean far from 0: sums of squares alone would lose it.
Tensor inputs(int64_t n, Dtype t) {
  manual_seed(11);
  return (randn({kSteps * n, 2, 4, 4}).to(Dtype::f64) + 50.0).to(t);
}
Tensor targets(int64_t n) {
  manual_seed(12);
  return randint(0, 5, {kSteps * n});
}

template <class Forward>
void train(NormNet& net, Forward forward, int64_t n, int64_t from, int64_t count, Dtype t) {
  nn::SGD sgd(net.parameters(), {.lr = 0.1});
  for (int s = 0; s < kSteps; ++s) {
    sgd.zero_grad();
    Tensor x = inputs(n, t).narrow(0, s * n + from, count).to(current_device());
    Tensor y = targets(n).narrow(0, s * n + from, count).to(current_device());
    cross_entropy(forward(x), y).backward();
    sgd.step();
  }
}

State alone(int64_t n, Dtype t, nn::BatchNorm2d::Options o = {}) {
  manual_seed(1);
  NormNet net(o);
  net.to(t);
  train(
      net, [&](const Tensor& x) { return net(x); }, n, 0, n, t);
  return state_of(net);
}

State together(const std::vector<int64_t>& sizes, Dtype t, nn::BatchNorm2d::Options o = {}) {
  const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
  std::vector<State> states(sizes.size());
  run_replicas(int(sizes.size()), [&](int rank) {
    manual_seed(1);
    auto mine = o;
    mine.device = current_device();
    NormNet net(mine);
    net.to(t);
    CHECK(convert_sync_batchnorm(net) == 2);
    // Buffers are not broadcast: they come out alike.
    DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.0001, .broadcast_buffers = false});
    const int64_t from = std::accumulate(sizes.begin(), sizes.begin() + rank, int64_t(0));
    train(
        net, [&](const Tensor& x) { return ddp(x); }, n, from, sizes[size_t(rank)], t);
    states[size_t(rank)] = state_of(net);
  });
  for (auto& s : states) CHECK(s == states[0]);
  return states[0];
}

}  // namespace

TEST_CASE("n ranks with b samples each are one with n times b, running statistics included") {
  for (int n : {1, 2, 3, 4}) {
    CAPTURE(n);
    const std::vector<int64_t> sizes(size_t(n), 12 / n);
    check_close(alone(12, Dtype::f64), together(sizes, Dtype::f64), 1e-12);
  }
  check_close(alone(12, Dtype::f32), together({4, 4, 4}, Dtype::f32), 1e-3);
}

TEST_CASE("uneven batches count by their samples, a rank without any takes part") {
  check_close(alone(4, Dtype::f64), together({1, 3}, Dtype::f64), 1e-12);
  check_close(alone(6, Dtype::f64), together({1, 0, 5}, Dtype::f64), 1e-12);
}

TEST_CASE("without affine parameters, and with the mean over all batches as running statistics") {
  check_close(alone(6, Dtype::f64, {.momentum = std::nullopt, .affine = false}),
              together({2, 4}, Dtype::f64, {.momentum = std::nullopt, .affine = false}), 1e-12);
  check_close(alone(6, Dtype::f64, {.track_running_stats = false}),
              together({2, 4}, Dtype::f64, {.track_running_stats = false}), 1e-12);
}

TEST_CASE("by rank: the gradient is that of the mean of the ranks' means, as PyTorch's") {
  auto input = [](Dtype t) { return inputs(2, t).narrow(0, 0, 4); };
  manual_seed(2);
  Tensor weights = randn({4, 2, 4, 4}).to(Dtype::f64);  // of the loss
  // On one device: the mean over ranks of losses that are means over 1 and 3 samples.
  nn::BatchNorm2d one(2, {.dtype = Dtype::f64});
  Tensor y = one(input(Dtype::f64)) * weights;
  ((sum(y.narrow(0, 0, 1)) + sum(y.narrow(0, 1, 3)) / 3.0) / 2.0).backward();
  run_replicas(2, [&](int rank) {
    nn::BatchNorm2d bn(2, {.dtype = Dtype::f64});
    convert_sync_batchnorm(bn, {.average = SyncBatchNormOptions::Average::by_rank});
    DistributedDataParallel ddp(bn, {.average = DistributedDataParallelOptions::Average::by_rank});
    const int64_t from = rank, n = rank == 0 ? 1 : 3;
    Tensor x = input(Dtype::f64).narrow(0, from, n).to(current_device()).clone().set_requires_grad();
    Tensor mine = ddp(x) * weights.narrow(0, from, n).to(current_device());
    (sum(mine) / double(n)).backward();
    CHECK(max_difference(bn.weight.grad().to(one.weight.device()), one.weight.grad()) < 1e-12);
    CHECK(max_difference(bn.bias.grad().to(one.weight.device()), one.bias.grad()) < 1e-12);
  });
}

TEST_CASE("the input's gradient is the one device's, where its loss is the ranks' mean") {
  manual_seed(2);
  Tensor all = randn({5, 2, 3, 3}).to(Dtype::f64), weights = randn({5, 2, 3, 3}).to(Dtype::f64);
  for (bool by_rank : {false, true}) {
    Tensor x = all.clone().set_requires_grad();
    nn::BatchNorm2d one(2, {.dtype = Dtype::f64});
    Tensor y = one(x) * weights;
    const double a = by_rank ? 0.5 : 2.0 / 5, b = by_rank ? 0.5 : 3.0 / 5;
    (sum(y.narrow(0, 0, 2)) * (a / 2) + sum(y.narrow(0, 2, 3)) * (b / 3)).backward();
    run_replicas(2, [&](int rank) {
      using Average = SyncBatchNormOptions::Average;
      nn::BatchNorm2d bn(2, {.dtype = Dtype::f64});
      convert_sync_batchnorm(bn, {.average = by_rank ? Average::by_rank : Average::by_samples});
      const int64_t from = rank * 2, n = 2 + rank;
      Tensor mine = all.narrow(0, from, n).to(current_device()).clone().set_requires_grad();
      (sum(bn(mine) * weights.narrow(0, from, n).to(current_device())) / double(n)).backward();
      const double weight = rank == 0 ? a : b;
      CHECK(max_difference(mine.grad().to(x.device()) * weight, x.grad().narrow(0, from, n)) < 1e-12);
    });
  }
}

TEST_CASE("one value on each rank is a batch, one in all is an error on all") {
  run_replicas(2, [](int rank) {
    nn::BatchNorm2d bn(1);
    convert_sync_batchnorm(bn);
    CHECK(bn(full({1, 1, 1, 1}, rank)).item() == doctest::Approx(rank == 0 ? -1 : 1).epsilon(1e-3));
    CHECK(bn.running_var.item() == doctest::Approx(0.9 + 0.1 * 0.5));
    CHECK_THROWS_AS(bn(zeros({rank, 1, 1, 1})), ShapeError);
  });
}

TEST_CASE("no samples at all leave the running statistics alone; evaluation is this rank's own business") {
  run_replicas(2, [](int rank) {
    nn::BatchNorm2d bn(2);
    convert_sync_batchnorm(bn);
    CHECK(bn(zeros({0, 2, 3, 3})).numel() == 0);
    CHECK(bn.running_var.to_vector() == std::vector<float>{1, 1});
    bn.eval();
    if (rank == 0) CHECK(bn(full({1, 2, 1, 1}, 3.0)).to_vector()[0] == doctest::Approx(3).epsilon(1e-4));
  });
}
