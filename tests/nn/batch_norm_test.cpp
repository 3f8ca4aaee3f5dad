#include "tests/nn/support.h"

#include <tandem/nn/batch_norm.h>
#include <tandem/ops/batch_norm.h>
#include <tandem/ops/reduce.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("BatchNorm2d has PyTorch's keys, in PyTorch's order") {
  nn::BatchNorm2d bn{4};
  std::vector<std::string> keys;
  for (auto& [key, t] : bn.state_dict()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"});
  CHECK(bn.num_batches_tracked.dtype() == Dtype::i64);
  CHECK(bn.num_batches_tracked.dim() == 0);
  CHECK(bn.parameters().size() == 2);
  CHECK(bn.weight.to_vector() == std::vector<float>(4, 1));
  CHECK(bn.bias.to_vector() == std::vector<float>(4, 0));
  CHECK(bn.running_mean.to_vector() == std::vector<float>(4, 0));
  CHECK(bn.running_var.to_vector() == std::vector<float>(4, 1));
  CHECK(bn.extra_repr() == "4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True");
  bn.to(Dtype::f64);
  CHECK(bn.running_var.dtype() == Dtype::f64);
  CHECK(bn.num_batches_tracked.dtype() == Dtype::i64);
}

TEST_CASE("BatchNorm2d uses the batch in training and the running statistics in evaluation") {
  nn::BatchNorm2d bn{3, {.eps = 1e-3, .momentum = 0.3}};
  Tensor x = random_tensor({4, 3, 2, 5}, {}), mean = zeros({3}), var = ones({3});
  Tensor want = batch_norm(x, bn.weight, bn.bias, mean, var, {.training = true, .momentum = 0.3, .eps = 1e-3});
  CHECK(same_bits(bn(x), want));
  CHECK(same_bits(bn.running_mean, mean));
  CHECK(same_bits(bn.running_var, var));
  CHECK(bn.num_batches_tracked.item<int64_t>() == 1);
  bn.eval();
  CHECK(same_bits(bn(x), batch_norm(x, bn.weight, bn.bias, mean, var, {.eps = 1e-3})));
  CHECK(same_bits(bn.running_mean, mean));
  CHECK(bn.num_batches_tracked.item<int64_t>() == 1);
  bn.reset_running_stats();
  CHECK(bn.running_mean.to_vector() == std::vector<float>(3, 0));
  CHECK(bn.num_batches_tracked.item<int64_t>() == 0);
}

TEST_CASE("BatchNorm2d without momentum keeps the mean over all batches") {
  nn::BatchNorm2d bn{2, {.momentum = std::nullopt, .dtype = Dtype::f64}};
  std::vector<double> means(2);
  const int batches = 3;
  for (int i = 0; i < batches; ++i) {
    Tensor x = random_tensor({3, 2, 4, 4});
    bn(x);
    for (size_t c = 0; c < 2; ++c) means[c] += mean(x, {0, 2, 3}).to_vector<double>()[c] / batches;
  }
  CHECK(max_difference(bn.running_mean, from_vector(means, {2})) < 1e-14);
  CHECK(bn.extra_repr() == "2, eps=1e-05, momentum=None, affine=True, track_running_stats=True");
}

TEST_CASE("BatchNorm2d without weights or without running statistics") {
  nn::BatchNorm2d bare{3, {.affine = false, .track_running_stats = false}};
  CHECK(bare.state_dict().empty());
  Tensor x = random_tensor({4, 3, 2, 5}, {});
  Tensor want = batch_norm(x, {}, {}, {}, {}, {.training = true});
  CHECK(same_bits(bare(x), want));
  bare.eval();
  CHECK(same_bits(bare(x), want));
}

TEST_CASE("BatchNorm2d takes images of its channels") {
  nn::BatchNorm2d bn{3};
  CHECK(says(error_of([&] {
               bn(zeros({2, 4, 3, 3}));
             }),
             "[BatchNorm2d] input has shape [2,4,3,3], wanted is [n,3,h,w]"));
  CHECK_THROWS_AS(bn(zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(bn(zeros({1, 3, 1, 1})), ShapeError);
}
