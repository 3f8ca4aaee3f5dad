#include "tests/nn/support.h"
#include "tests/support/test_device.h"

#include <tandem/nn/activation.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/sequential.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/softmax.h>
#include <tandem/ops/unary.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("activations call the functions of their names, on a temporary as on a tensor") {
  Tensor x = random_tensor({3, 4}, {});
  auto check_one = [&](nn::Module& m, const Tensor& want, const std::string& repr) {
    INFO(to_string(m));
    CHECK(same_bits(m(x), want));
    CHECK(same_bits(m(x.clone()), want));
    CHECK(m.extra_repr() == repr);
  };
  nn::ReLU relu_;
  nn::LeakyReLU leaky{0.2};
  nn::Sigmoid sigmoid_;
  nn::Tanh tanh_;
  nn::SiLU silu_;
  nn::GELU gelu_, approximate{"tanh"};
  nn::Softmax softmax_{1};
  nn::LogSoftmax log_softmax_{-1};
  check_one(relu_, relu(x), "");
  check_one(leaky, leaky_relu(x, 0.2), "negative_slope=0.2");
  check_one(sigmoid_, sigmoid(x), "");
  check_one(tanh_, tanh(x), "");
  check_one(silu_, silu(x), "");
  check_one(gelu_, gelu(x), "approximate='none'");
  check_one(approximate, gelu(x, "tanh"), "approximate='tanh'");
  check_one(softmax_, softmax(x, 1), "dim=1");
  check_one(log_softmax_, log_softmax(x, 1), "dim=-1");
  CHECK_THROWS_AS(nn::GELU{"other"}(x), Error);
}

TEST_CASE("in a Sequential an activation takes no memory of its own" * cpu_only()) {
  nn::Sequential net;
  net.append<nn::Linear>(64, 64).append<nn::ReLU>().append<nn::Sigmoid>().append<nn::Tanh>();
  Tensor x = random_tensor({64, 64}, {});
  NoGradGuard no_grad;
  const size_t before = memory_allocated();
  Tensor y = net(x);
  CHECK(memory_allocated() - before == 64 * 64 * sizeof(float));
  reset_peak_memory_stats();
  y = {};
  net(x);
  CHECK(max_memory_allocated() - before == 64 * 64 * sizeof(float));
}
