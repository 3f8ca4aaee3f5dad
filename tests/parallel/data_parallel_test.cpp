// N replicas are one on the whole batch: gradients, buffers, random numbers, hooks.
#include "tests/parallel/data_parallel_support.h"

#include <tandem/core/autograd.h>
#include <tandem/core/checkpoint.h>
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/nn/batch_norm.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/dropout.h>
#include <tandem/ops/reduce.h>

#include <atomic>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("n replicas are one on the whole batch, over steps with momentum") {
  for (Dtype dtype : {Dtype::f64, Dtype::f32})
    for (int n = 1; n <= 4; ++n)
      for (int64_t samples : {10, 3, 1, 0}) {
        CAPTURE(dtype);
        CAPTURE(n);
        CAPTURE(samples);
        auto net = make<SmallNet>(dtype), alone = make<SmallNet>(dtype);
        DataParallel dp(*net, test_devices(n), small_buckets());
        nn::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
        nn::SGD optimizer_alone(alone->parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
        nn::CrossEntropyLoss criterion({.reduction = samples ? Reduction::mean : Reduction::sum});
        Batch b(samples, dtype);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          optimizer_alone.zero_grad();
          Tensor out = dp(b.x), want = (*alone)(b.x);
          CHECK(out.device() == test_device());
          CHECK(out.shape() == want.shape());
          if (samples) CHECK(relative_difference(out, want) <= (dtype == Dtype::f64 ? kF64 : kF32));
          criterion(out, b.y).backward();
          criterion(want, b.y).backward();
          check_same(*net, *alone, dtype == Dtype::f64 ? kF64 : kF32);
          optimizer.step();
          optimizer_alone.step();
        }
      }
}

TEST_CASE("a batch is split into parts that differ by at most one, each on its replica's device") {
  struct Probe : nn::Module {
    std::array<std::atomic<int64_t>, 4> rows;
    Tensor forward(const Tensor& x) override {
      rows[size_t(x.device().index)] = x.size(0);
      CHECK(current_device() == x.device());
      return x;
    }
  } probe;
  DataParallel dp(probe, test_devices(4));
  const std::vector<std::array<int64_t, 4>> wanted{{0, -1, -1, -1}, {1, -1, -1, -1}, {1, 1, 1, -1},
                                                   {2, 1, 1, 1},    {2, 2, 1, 1},    {3, 3, 3, 2}};
  for (auto& want : wanted) {
    for (auto& r : probe.rows) r = -1;
    int64_t n = 0;
    for (int64_t w : want) n += std::max<int64_t>(w, 0);
    Tensor x = random_tensor({n, 2});
    CHECK(same_bits(dp(x), x));
    for (size_t i = 0; i < 4; ++i) CHECK(probe.rows[i] == want[i]);
  }
  Tensor elsewhere = random_tensor({5, 2}, {.dtype = Dtype::f32, .device = test_device(3)});
  CHECK(dp(elsewhere).device() == test_device());
  CHECK(dp(elsewhere).to_vector() == elsewhere.to_vector());
  CHECK_THROWS_AS(dp(tensor({1.f}).reshape({})), ShapeError);
  CHECK(dp.devices() == test_devices(4));
  CHECK(&dp.module() == &probe);
}

TEST_CASE("each replica has its share of the threads") {
  struct Probe : nn::Module {
    std::atomic<int> threads{0};
    Tensor forward(const Tensor& x) override {
      threads = num_threads();
      return x;
    }
  } probe;
  const int before = num_threads();
  set_num_threads(6);
  CHECK(DataParallel(probe, test_devices(2))(ones({2})).numel() == 2);
  CHECK(probe.threads == 3);
  DataParallel(probe, test_devices(4), {.threads = 2})(ones({4}));
  CHECK(probe.threads == 2);
  set_num_threads(before);
  DataParallel all(probe);  // every device of the kind
  CHECK(all.devices().size() == size_t(device_count(test_device().kind)));
}

TEST_CASE("outputs of any shape are put together: channels-last images, and numbers as a vector") {
  nn::Conv2d conv{3, 4, {.kernel = 3}};
  DataParallel dp(conv, test_devices(3));
  Tensor x = random_tensor({7, 3, 6, 6}, {}), y = dp(x);
  CHECK(y.layout() == Layout::channels_last);
  CHECK(relative_difference(y, conv(x)) <= kF32);

  struct Mean : nn::Module {
    nn::Linear fc{2, 3};
    Mean() { add("fc", fc); }
    Tensor forward(const Tensor& x) override { return mean(fc(x)); }
  } net;
  DataParallel of_mean(net, test_devices(2));
  Tensor z = random_tensor({4, 2}, {});
  Tensor means = of_mean(z);
  CHECK(means.shape() == Dims{2});
  mean(means).backward();
  const Tensor got = copy_of(net.fc.weight.grad(), {});
  net.zero_grad();
  net(z).backward();
  CHECK(relative_difference(got, net.fc.weight.grad()) <= kF32);

  struct Ragged : nn::Module {
    Tensor forward(const Tensor& x) override { return zeros({x.size(0), x.device().index + 1}); }
  } ragged;
  DataParallel of_ragged(ragged, test_devices(2));
  CHECK(says(error_of([&] { of_ragged(z); }), "replica 0 returned [2,1] of f32, replica 1 [2,2]"));
}

TEST_CASE("gradients accumulate over backwards, and zero_grad starts anew") {
  auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(3), small_buckets());
  for (int round = 0; round < 2; ++round) {
    net->zero_grad();
    alone->zero_grad();
    for (int64_t n : {5, 2, 8}) {
      Batch b(n, Dtype::f64);
      sum(dp(b.x) * dp(b.x)).backward();  // two forwards in one graph
      Tensor y = (*alone)(b.x);
      sum(y * y).backward();
    }
    check_same(*net, *alone, kF64);
  }
}

TEST_CASE("the gradient of the input, also where it is the result of an op") {
  auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(4), small_buckets());
  Batch b(6, Dtype::f64);
  Tensor x = b.x, x2 = copy_of(b.x, b.x.options());
  x.set_requires_grad();
  x2.set_requires_grad();
  for (int i = 0; i < 2; ++i) {  // adds up
    sum(dp(x * 3.0) * 2.0 + sum(x)).backward();
    sum((*alone)(x2 * 3.0) * 2.0 + sum(x2)).backward();
    CHECK(relative_difference(x.grad(), x2.grad()) <= kF64);
  }
  net->requires_grad_(false);
  x.zero_grad();
  x2.zero_grad();
  sum(dp(x)).backward();  // the input alone
  sum((*alone)(x2)).backward();
  CHECK(relative_difference(x.grad(), x2.grad()) <= kF64);
}

TEST_CASE("retain_graph keeps all replicas' graphs; without it a second backward is an error") {
  auto net = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(2), small_buckets());
  Batch b(4, Dtype::f64);
  Tensor y = sum(dp(b.x));
  y.backward({}, true);
  const Tensor once = copy_of(net->fc1.weight.grad(), {.dtype = Dtype::f64});
  y.backward();
  CHECK(relative_difference(net->fc1.weight.grad(), once * 2.0) <= kF64);
  CHECK(says(error_of([&] { y.backward(); }), "retain_graph"));
}

TEST_CASE("without grad mode nothing is recorded") {
  auto net = make<SmallNet>();
  DataParallel dp(*net, test_devices(2));
  Batch b(4);
  NoGradGuard guard;
  CHECK_FALSE(dp(b.x).requires_grad());
  CHECK(relative_difference(dp(b.x), (*net)(b.x)) <= kF32);
}

TEST_CASE("frozen parameters have no gradient, and may be frozen and thawed between steps") {
  auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(3), small_buckets());
  Batch b(7, Dtype::f64);
  auto both = [&](auto&& f) {
    f(*net);
    f(*alone);
  };
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    both([](SmallNet& n) { n.zero_grad(); });
    if (round == 1) both([](SmallNet& n) { n.conv.requires_grad_(false); });
    if (round == 2) both([](SmallNet& n) { n.fc2.bias.set_requires_grad(false); });
    if (round == 3) both([](SmallNet& n) { n.requires_grad_(); });
    sum(dp(b.x)).backward();
    sum((*alone)(b.x)).backward();
    check_same(*net, *alone, kF64);
    CHECK(net->conv.weight.grad().defined() == (round == 0 || round == 3));
  }
  both([](SmallNet& n) { n.requires_grad_(false); });
  CHECK_FALSE(dp(b.x).requires_grad());

  both([](SmallNet& n) { n.requires_grad_(); });
  Tensor y = sum(dp(b.x));
  net->conv.requires_grad_(false);
  dp(b.x);
  CHECK(says(error_of([&] { y.backward(); }), "frozen or thawed"));
}

TEST_CASE("a parameter that is used twice, and one that two layers share") {
  struct Shared : nn::Module {
    nn::Linear a{4, 4}, b{4, 4};
    Shared() {
      b.weight = a.weight;
      add("a", a);
      add("b", b);
    }
    Tensor forward(const Tensor& x) override { return b(relu(a(relu(a(x))))); }
  };
  auto net = make<Shared>(), alone = make<Shared>();
  CHECK(net->parameters().size() == 3);
  DataParallel dp(*net, test_devices(3), small_buckets());
  Tensor x = random_tensor({5, 4}, {});
  for (int i = 0; i < 2; ++i) {
    sum(dp(x)).backward();
    sum((*alone)(x)).backward();
    check_same(*net, *alone, kF32);
  }
}

TEST_CASE("a parameter that no replica uses has no gradient; one that some use has theirs") {
  struct Choice : nn::Module {
    nn::Linear all{2, 2}, some{2, 2}, none{2, 2};
    Choice() {
      add("all", all);
      add("some", some);
      add("none", none);
    }
    // By a row's first number, not by the device: what the whole batch does, its parts do.
    Tensor forward(const Tensor& x) override {
      Tensor y = all(x);
      return x.size(0) == 1 && x.select(0, 0).select(0, 0).item() > 0 ? y + some(x) : y;
    }
  } net;
  for (bool first : {true, false}) {
    CAPTURE(first);
    net.zero_grad();
    DataParallel dp(net, test_devices(2), small_buckets());
    Tensor x = first ? tensor({1.f, 2.f, -1.f, 3.f}).reshape({2, 2}) : tensor({-1.f, 3.f, 1.f, 2.f}).reshape({2, 2});
    for (int i = 1; i <= 2; ++i) {
      sum(dp(x)).backward();
      const float k = float(i);
      CHECK(net.all.weight.grad().to_vector() == std::vector<float>{0, 5 * k, 0, 5 * k});
      CHECK(net.some.weight.grad().to_vector() == std::vector<float>{k, 2 * k, k, 2 * k});
      CHECK_FALSE(net.none.weight.grad().defined());
      CHECK_FALSE(net.none.bias.grad().defined());
    }
  }
  struct Detached : Choice {
    Tensor forward(const Tensor& x) override { return x.device() == test_device() ? all(x).detach() : all(x); }
  } detached;
  DataParallel dp(detached, test_devices(2), small_buckets());
  sum(dp(tensor({1.f, 2.f, -1.f, 3.f}).reshape({2, 2}))).backward();
  CHECK(detached.all.weight.grad().to_vector() == std::vector<float>{-1, 3, -1, 3});
  detached.zero_grad();
  auto constant = [](Tensor y) {  // an op that gives its input no gradient
    return record("constant", y.detach(), {y}, [](Tensor&, Targets) {});
  };
  struct Untouched : nn::Module {
    nn::Linear fc{2, 2};
    std::function<Tensor(Tensor)> op;
    Untouched() { add("fc", fc); }
    Tensor forward(const Tensor& x) override { return op(fc(x)); }
  } untouched;
  untouched.op = constant;
  DataParallel of_untouched(untouched, test_devices(2));
  sum(of_untouched(ones({2, 2}))).backward();
  CHECK_FALSE(untouched.fc.weight.grad().defined());
  int id = untouched.fc.weight.register_hook([](const Tensor&) -> Tensor { throw Error("no gradient, no hook"); });
  sum(of_untouched(ones({2, 2}))).backward();
  CHECK_FALSE(untouched.fc.weight.grad().defined());
  untouched.fc.weight.remove_hook(id);
}

TEST_CASE("a hook sees the sum over all replicas of this backward alone, and may replace it") {
  auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(4), small_buckets());
  Batch b(6, Dtype::f64);
  std::vector<Tensor> seen;
  for (SmallNet* n : {net.get(), alone.get()})
    n->fc1.weight.register_hook([&](const Tensor& g) {
      seen.push_back(copy_of(g, g.options()));
      return g * 0.5;
    });
  for (int i = 0; i < 2; ++i) {
    sum(dp(b.x)).backward();
    sum((*alone)(b.x)).backward();
    check_same(*net, *alone, kF64);
  }
  REQUIRE(seen.size() == 4);
  CHECK(same_bits(seen[0], seen[2]));
  CHECK(relative_difference(seen[0], seen[1]) <= kF64);
}

TEST_CASE("the caller's hooks and anomaly detection work around and inside the replicas") {
  auto net = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(2));
  Batch b(4, Dtype::f64);
  Tensor y = dp(b.x);
  int calls = 0;
  y.register_hook([&](const Tensor& g) {
    CHECK(g.shape() == y.shape());
    ++calls;
    return Tensor();
  });
  sum(y).backward();
  CHECK(calls == 1);
  DetectAnomalyGuard detect;
  Tensor infinite = full({4, 5}, INFINITY, {.dtype = Dtype::f64});
  CHECK(says(error_of([&] { sum(dp(b.x) * infinite).backward(); }), "[detect_anomaly]"));
}

TEST_CASE("batch norm works on each replica's share, and the module keeps replica 0's statistics") {
  struct Normed : nn::Module {
    nn::Conv2d conv{3, 4, {.kernel = 3}};
    nn::BatchNorm2d bn;
    explicit Normed(std::optional<double> momentum) : bn(4, {.momentum = momentum}) {
      add("conv", conv);
      add("bn", bn);
    }
    Tensor forward(const Tensor& x) override { return bn(conv(x)); }
  };
  for (std::optional<double> momentum : {std::optional(0.1), std::optional<double>()}) {  // without: a running mean
    auto net = make<Normed>(Dtype::f32, momentum), alone = make<Normed>(Dtype::f32, momentum);
    DataParallel dp(*net, test_devices(3));
    for (int step = 0; step < 3; ++step) {
      Batch b(7);
      Tensor y = dp(b.x);
      Tensor first = (*alone)(b.x.narrow(0, 0, 3));
      CHECK(relative_difference(y.narrow(0, 0, 3), first) <= kF32);
      CHECK(net->bn.num_batches_tracked.item<int64_t>() == step + 1);
      CHECK(relative_difference(net->bn.running_mean, alone->bn.running_mean) <= kF32);
      CHECK(relative_difference(net->bn.running_var, alone->bn.running_var) <= kF32);
    }
    net->eval();
    alone->eval();
    Batch b(5);
    CHECK(relative_difference(dp(b.x), (*alone)(b.x)) <= kF32);  // all use replica 0's
  }
}

TEST_CASE("a second forward before the backward, with buffers that the first one changed") {
  struct Scaled : nn::Module {
    nn::Linear fc{3, 3};
    nn::BatchNorm2d bn{3};
    Scaled() {
      add("fc", fc);
      add("bn", bn);
    }
    Tensor forward(const Tensor& x) override { return bn(unsqueeze(unsqueeze(fc(x), 2), 3)); }
  } net;
  DataParallel dp(net, test_devices(2));
  Tensor a = dp(random_tensor({6, 3}, {})), b = dp(random_tensor({6, 3}, {}));
  CHECK_NOTHROW(sum(a * b).backward());
}

TEST_CASE("changed values reach every replica, whoever changed them, and tensors that moved are found") {
  auto net = make<SmallNet>(Dtype::f64), alone = make<SmallNet>(Dtype::f64);
  DataParallel dp(*net, test_devices(3), small_buckets());
  Batch b(6, Dtype::f64);
  Tensor y = sum(dp(b.x));
  nn::SGD optimizer(net->parameters(), {.lr = 0.5});  // moves values and gradients after the forward
  empty_cache();
  y.backward();
  sum((*alone)(b.x)).backward();
  check_same(*net, *alone, kF64);
  {
    NoGradGuard guard;
    for (SmallNet* n : {net.get(), alone.get()}) n->fc2.weight.mul_(2.0);
  }
  CHECK(relative_difference(dp(b.x), (*alone)(b.x)) <= kF64);
  net->load_state_dict(make<SmallNet>()->state_dict());
  alone->load_state_dict(make<SmallNet>()->state_dict());
  CHECK(relative_difference(dp(b.x), (*alone)(b.x)) <= kF64);
  Tensor stale = sum(dp(b.x));
  {
    NoGradGuard guard;
    net->fc2.weight.mul_(2.0);
  }
  CHECK(says(error_of([&] { stale.backward(); }), "changed in place"));
}

TEST_CASE("dropout draws what one replica would draw, forward and in activation checkpoints") {
  struct Dropping : nn::Module {
    bool again = false;
    nn::Linear fc{4, 4};
    Dropping() { add("fc", fc); }
    Tensor forward(const Tensor& x) override {
      auto f = [](std::span<const Tensor> in) { return dropout(dropout(in[0], 0.5), 0.3); };
      Tensor h = again ? checkpoint(f, {x}) : f(std::span(&x, 1));
      return fc(h);
    }
  };
  for (bool again : {false, true}) {
    auto net = make<Dropping>(), alone = make<Dropping>();
    net->again = alone->again = again;
    DataParallel dp(*net, test_devices(3));
    Tensor x = random_tensor({7, 4}, {}), x2 = copy_of(x, {});
    x.set_requires_grad();
    x2.set_requires_grad();
    RandomStep after_dp, after_alone;
    manual_seed(9);
    for (int i = 0; i < 2; ++i) sum(dp(x)).backward();  // the second call of a step draws other numbers
    after_dp = context().random;
    manual_seed(9);
    for (int i = 0; i < 2; ++i) sum((*alone)(x2)).backward();
    after_alone = context().random;
    CHECK(after_dp.call == after_alone.call);
    CHECK(after_dp.row_offset == after_alone.row_offset);
    CHECK(relative_difference(x.grad(), x2.grad()) <= kF32);
    for (auto [a, b] = std::pair(x.grad().to_vector(), x2.grad().to_vector()); size_t i : {0u, 5u, 13u, 27u})
      CHECK((a[i] == 0) == (b[i] == 0));
  }
  struct Bare : nn::Module {
    Tensor forward(const Tensor& x) override { return dropout(x, 0.5); }
  } bare;
  DataParallel dp(bare, test_devices(4));
  Tensor x = ones({9, 33});
  manual_seed(4);
  Tensor a = dp(x);
  manual_seed(4);
  CHECK(same_bits(a, dropout(x, 0.5)));
}

TEST_CASE("the generator comes back from replica 0") {
  struct Noisy : nn::Module {
    Tensor forward(const Tensor& x) override { return x + double(default_generator().uniform_float()); }
  } noisy;
  DataParallel dp(noisy, test_devices(2));
  manual_seed(6);
  const float first = dp(zeros({2, 1})).to_vector()[0], second = default_generator().uniform_float();
  manual_seed(6);
  CHECK(first == default_generator().uniform_float());
  CHECK(second == default_generator().uniform_float());
}
