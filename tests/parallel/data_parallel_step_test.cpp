// Whole steps by replicas: DataParallel::step, and what steps of both kinds keep.
#include "tests/parallel/data_parallel_support.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/dropout.h>
#include <tandem/ops/elementwise_loss.h>
#include <tandem/ops/reduce.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("step computes each share's loss in its replica: the same numbers as forward, loss and backward") {
  for (int n = 1; n <= 4; ++n)
    for (int64_t samples : {10, 3, 1}) {
      CAPTURE(n);
      CAPTURE(samples);
      auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
      DataParallel dp(*net, test_devices(n), small_buckets());
      nn::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
      nn::SGD optimizer_alone(alone->parameters(), {.lr = 0.1, .momentum = 0.9});
      nn::CrossEntropyLoss criterion;
      for (int i = 0; i < 3; ++i) {
        Batch b(samples, Dtype::f64);
        optimizer.zero_grad();
        optimizer_alone.zero_grad();
        Tensor loss = dp.step(b.x, b.y, criterion);
        Tensor want = criterion((*alone)(b.x), b.y);
        want.backward();
        CHECK_FALSE(loss.requires_grad());
        CHECK(loss.shape() == Dims{});
        CHECK(loss.device() == test_device());
        CHECK(relative_difference(loss, want) <= kF64);
        check_same(*net, *alone, kF64);
        optimizer.step();
        optimizer_alone.step();
      }
    }
}

TEST_CASE("step: hooks, accumulation, dropout, errors, and a loss given as a function") {
  struct Dropping : nn::Module {
    nn::Linear fc{4, 3};
    Dropping() { add("fc", fc); }
    Tensor forward(const Tensor& x) override { return fc(dropout(x, 0.5)); }
  };
  auto net = make<Dropping>(Dtype::f64), alone = make<Dropping>(Dtype::f64);
  DataParallel dp(*net, test_devices(3), small_buckets());
  int hooks = 0;
  net->fc.bias.register_hook([&](const Tensor& g) {
    ++hooks;
    return g * 2.0;
  });
  alone->fc.bias.register_hook([](const Tensor& g) { return g * 2.0; });
  Tensor x = random_tensor({8, 4}), y = random_tensor({8, 3});
  auto loss_of = [](const Tensor& out, const Tensor& target) { return mse_loss(out, target); };
  manual_seed(1);
  for (int i = 0; i < 3; ++i) dp.step(x, y, loss_of);
  const RandomStep after = context().random;
  manual_seed(1);
  for (int i = 0; i < 3; ++i) mse_loss((*alone)(x), y).backward();
  CHECK(hooks == 3);
  CHECK(after.call == context().random.call);
  check_same(*net, *alone, kF64);
  {
    NoGradGuard guard;  // a step is training, whatever the mode around it
    const Tensor before = copy_of(net->fc.bias.grad(), y.options());
    dp.step(x, y, loss_of);
    CHECK(max_difference(before, net->fc.bias.grad()) > 0);
  }
  CHECK_FALSE(context().retain_graph);
  CHECK(says(error_of([&] { dp.step(x, y.narrow(0, 0, 7), loss_of); }), "[8,4] and target [7,3]"));
  CHECK(says(error_of([&] { dp.step(x, y, [](auto& out, auto&) { return out; }); }), "a loss of one number"));
  net->requires_grad_(false);
  CHECK(says(error_of([&] { dp.step(x, y, loss_of); }), "no parameter that requires grad"));
}

TEST_CASE("the same bits in every run") {
  auto train = [](bool whole_steps, int threads) {
    auto net = make<SmallNet>();
    DataParallel::Options options = small_buckets();
    options.threads = threads;
    DataParallel dp(*net, test_devices(4), options);
    nn::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
    nn::CrossEntropyLoss criterion;
    std::vector<float> values(11 * 3 * 8 * 8);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(float(i));
    Tensor x = from_vector(values, {11, 3, 8, 8});
    Tensor y = tensor<int64_t>({0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0});
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      if (whole_steps)
        dp.step(x, y, criterion);
      else
        criterion(dp(x), y).backward();
      optimizer.step();
    }
    std::vector<float> all;
    for (auto& p : net->parameters())
      for (float v : p.to_vector()) all.push_back(v);
    return all;
  };
  for (bool whole_steps : {false, true})
    for (int threads : {1, 2}) {
      const auto first = train(whole_steps, threads);
      for (int i = 1; i < 5; ++i) CHECK(train(whole_steps, threads) == first);
    }
}

TEST_CASE("gradients that are added in many pieces, by whichever replica is idle") {
  nn::Linear fc{300, 500}, alone{300, 500};
  DataParallel dp(fc, test_devices(4), {.threads = 1});
  std::vector<float> values;
  for (int i = 0; i < 9 * 300; ++i) values.push_back(float(i * 7 % 11 - 5));  // sums of these are exact
  Tensor x = from_vector(values, {9, 300});
  for (int i = 0; i < 5; ++i) {
    sum(dp(x)).backward();
    sum(alone(x)).backward();
    CHECK(same_bits(fc.weight.grad(), alone.weight.grad()));
    CHECK(same_bits(fc.bias.grad(), alone.bias.grad()));
  }
}

TEST_CASE("once warm, a step grows no pool") {
  auto net = make<SmallNet>();
  DataParallel dp(*net, test_devices(3));
  nn::SGD optimizer(net->parameters(), {.lr = 0.1});
  nn::CrossEntropyLoss criterion;
  Batch b(12);
  auto reserved = [&](bool whole_steps) {
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      if (whole_steps)
        dp.step(b.x, b.y, criterion);
      else
        criterion(dp(b.x), b.y).backward();
      optimizer.step();
    }
    std::vector<size_t> bytes;
    for (int d = 0; d < 3; ++d) bytes.push_back(memory_reserved(test_device(d)));
    return bytes;
  };
  for (bool whole_steps : {false, true}) {
    const auto warm = reserved(whole_steps);
    CHECK(reserved(whole_steps) == warm);
  }
}
