#include "tests/nn/support.h"

#include <tandem/nn/clip_grad.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/max_pool2d.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct SmallNet : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1}};
  nn::Linear fc{8 * 4 * 4, 10};
  SmallNet() {
    add("conv", conv);
    add("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(flatten(max_pool2d(relu(conv(x)), 2), 1)); }
};

}  // namespace

TEST_CASE("a net learns, and once warm a training step grows no pool") {
  SmallNet net;
  nn::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  nn::CrossEntropyLoss loss_of;
  Tensor x = random_tensor({16, 3, 8, 8}, {});
  Tensor y = tensor<int64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5});
  auto step = [&] {
    optimizer.zero_grad();
    Tensor loss = loss_of(net(x), y);
    loss.backward();
    nn::clip_grad_norm_(net.parameters(), 10);
    optimizer.step();
    return loss.item();
  };
  const float first = step();
  step();
  const PoolStats warm = pool(cpu()).stats();
  float last = 0;
  for (int i = 0; i < 20; ++i) last = step();
  CHECK(last < first / 2);
  CHECK(pool(cpu()).stats().reserved == warm.reserved);
  CHECK(pool(cpu()).stats().allocated == warm.allocated);
  CHECK(pool(cpu()).stats().max_allocated == warm.max_allocated);
}

TEST_CASE("gradients of several backwards add up until zero_grad") {
  nn::Linear fc{3, 2};
  nn::SGD optimizer(fc.parameters());
  Tensor x = random_tensor({4, 3}, {}), y = zeros({4, 2});
  nn::MSELoss loss_of;
  loss_of(fc(x), y).backward();
  Tensor once = fc.weight.grad().clone();
  loss_of(fc(x), y).backward();
  auto twice = fc.weight.grad().to_vector();
  for (size_t i = 0; i < 6; ++i) CHECK(twice[i] == doctest::Approx(2 * once.to_vector()[i]));
  optimizer.zero_grad();
  loss_of(fc(x), y).backward();
  CHECK(same_bits(fc.weight.grad(), once));
}
