// Steps run by a StepGraph against the same steps run one op after the other: on the CPU it runs them so itself, on a
// CUDA device (support/test_device.h) it replays, and the bits have to be the same.
#include "tests/nn/support.h"
#include "tests/support/test_device.h"

#include <tandem/core/generator.h>
#include <tandem/core/step_graph.h>
#include <tandem/nn/adam.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/dropout.h>
#include <tandem/ops/inplace.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kBatch = 6, kIn = 5, kClasses = 4;

struct Mlp : nn::Module {
  nn::Linear fc1{kIn, 8}, fc2{8, kClasses};
  double p = 0;  // dropout's
  Mlp() {
    add("fc1", fc1);
    add("fc2", fc2);
    to(test_device());
  }
  Tensor forward(const Tensor& x) override { return fc2(dropout(relu(fc1(x)), p, is_training())); }
};

// A trainer whose step runs eagerly or by a graph, from the same weights and the same data.
template <class Optimizer>
struct Trainer {
  Mlp net;
  Optimizer optimizer;
  nn::CrossEntropyLoss loss_of;
  Tensor x = zeros({kBatch, kIn}), y = zeros({kBatch}, {.dtype = Dtype::i64}), loss;
  std::unique_ptr<StepGraph> graph;

  explicit Trainer(typename Optimizer::Options o) : optimizer(net.parameters(), o) {
    manual_seed(7);
    NoGradGuard no_grad;
    for (Tensor p : net.parameters()) p.copy_(random_of(p.shape()));
    manual_seed(9);
  }
  static Tensor random_of(const Dims& shape) {
    Generator& g = default_generator();
    std::vector<float> v(size_t(shape.numel()));
    for (float& e : v) e = float(g.uniform_double()) - 0.5f;
    return from_vector(v, shape);
  }

  void step() {
    optimizer.zero_grad();
    loss = loss_of(net(x), y);
    loss.backward();
    optimizer.step();
  }
  void by_graph(StepGraph::Options o = {.warm_up = 2}) {
    graph = std::make_unique<StepGraph>([this] { step(); }, std::move(o));
  }
  void feed(int k) {
    std::vector<float> v(size_t(kBatch * kIn));
    for (size_t i = 0; i < v.size(); ++i) v[i] = float((i * 7 + size_t(k) * 13) % 11) / 11 - 0.5f;
    x.copy_(from_vector(v, {kBatch, kIn}));
    std::vector<int64_t> t(kBatch);
    for (size_t i = 0; i < t.size(); ++i) t[i] = int64_t((i + size_t(k)) % kClasses);
    y.copy_(from_vector(t, {kBatch}));
  }
  void run(int k) {
    feed(k);
    if (graph)
      (*graph)();
    else
      step();
  }
};

template <class Optimizer>
void check_equal(Trainer<Optimizer>& a, Trainer<Optimizer>& b) {
  CHECK(same_bits(a.loss, b.loss));
  auto p = a.net.parameters(), q = b.net.parameters();
  for (size_t i = 0; i < p.size(); ++i) {
    INFO("parameter ", i);
    CHECK(same_bits(p[i], q[i]));
    CHECK(same_bits(p[i].grad(), q[i].grad()));
  }
  auto s = a.optimizer.state_dict(), t = b.optimizer.state_dict();
  REQUIRE(s.size() == t.size());
  for (size_t i = 0; i < s.size(); ++i) {
    INFO(s[i].first);
    CHECK(same_bits(s[i].second, t[i].second));
  }
}

}  // namespace

TEST_CASE("replayed steps are the eager ones, bit for bit: SGD with momentum, the learning rate changing") {
  Trainer<nn::SGD> eager({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3}),
      graphed({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  graphed.by_graph();
  for (int k = 0; k < 8; ++k) {
    INFO("step ", k);
    for (auto* t : {&eager, &graphed}) {
      t->optimizer.param_groups()[0].lr = 0.1 / (1 + k);
      t->run(k);
    }
    check_equal(eager, graphed);
  }
  CHECK(graphed.graph->is_captured() == !on_cpu());
  CHECK((graphed.graph->nodes() > 0) == !on_cpu());
}

TEST_CASE("replayed steps count Adam's updates, on the host and on the device") {
  Trainer<nn::AdamW> eager({.lr = 0.01}), graphed({.lr = 0.01});
  graphed.by_graph();
  for (int k = 0; k < 6; ++k) {
    for (auto* t : {&eager, &graphed}) t->run(k);
    check_equal(eager, graphed);
  }
}

TEST_CASE("a replayed step draws dropout's next masks") {
  Trainer<nn::SGD> eager({.lr = 0.1}), graphed({.lr = 0.1});
  graphed.by_graph();
  const RandomStep start = context().random;
  for (auto* t : {&eager, &graphed}) {
    t->net.p = 0.4;
    context().random = start;
    for (int k = 0; k < 6; ++k) {
      if (k == 4) context().random.step = 77;  // as a trainer that counts its steps does
      t->run(k);
    }
    CHECK(context().random.call == start.call + 6);
  }
  check_equal(eager, graphed);
}

TEST_CASE("an option that needs a new state has the step captured anew") {
  Trainer<nn::SGD> eager({.lr = 0.1}), graphed({.lr = 0.1});
  graphed.by_graph();
  for (int k = 0; k < 9; ++k) {
    for (auto* t : {&eager, &graphed}) {
      if (k == 5) t->optimizer.param_groups()[0].momentum = 0.9;
      t->run(k);
    }
    check_equal(eager, graphed);
  }
  CHECK(graphed.graph->is_captured() == !on_cpu());
}

TEST_CASE("gradients that add up over replays") {
  Mlp a, b;
  {
    NoGradGuard no_grad;
    auto p = a.parameters(), q = b.parameters();
    for (size_t i = 0; i < p.size(); ++i) q[i].copy_(p[i]);
  }
  Tensor x = random_tensor({kBatch, kIn}, {}), g = random_tensor({kBatch, kClasses}, {});
  StepGraph step([&] { b(x).backward(g); }, {.warm_up = 1});
  for (int k = 0; k < 4; ++k) {
    a(x).backward(g);
    step();
  }
  for (size_t i = 0; i < a.parameters().size(); ++i)
    CHECK(same_bits(a.parameters()[i].grad(), b.parameters()[i].grad()));
  a.zero_grad();
  b.zero_grad();
  a(x).backward(g);
  step();  // it was captured when gradients were added to, which fresh ones are not
  for (size_t i = 0; i < a.parameters().size(); ++i)
    CHECK(same_bits(a.parameters()[i].grad(), b.parameters()[i].grad()));
}

TEST_CASE("versions move with each replay") {
  Tensor t = zeros({4});
  StepGraph step([&] { t.add_(1); }, {.warm_up = 1});
  step();
  for (int k = 0; k < 3; ++k) {
    const uint32_t before = t.storage()->version;
    step();
    CHECK(t.storage()->version == before + 1);
  }
  CHECK(t.to_vector() == std::vector<float>(4, 4.f));
}

TEST_CASE("an input that was replaced, or another mode, is seen") {
  Tensor x = ones({4}), y;
  int64_t mode = 0;
  StepGraph step([&] { y = mode ? x * 3.0 : x * 2.0; }, {.warm_up = 1, .inputs = {&x}, .mode = [&] { return mode; }});
  for (int k = 0; k < 3; ++k) step();
  CHECK(y.to_vector() == std::vector<float>(4, 2.f));
  x = full({3}, 5);
  for (int k = 0; k < 3; ++k) {
    step();
    CHECK(y.to_vector() == std::vector<float>(3, 10.f));
  }
  mode = 1;
  for (int k = 0; k < 3; ++k) {
    step();
    CHECK(y.to_vector() == std::vector<float>(3, 15.f));
  }
  StepGraph strict([&] { y = x * 2.0; }, {.warm_up = 1, .inputs = {&x}, .on_change = StepGraph::OnChange::fail});
  strict();
  strict();
  x = full({2}, 5);
  if (on_cpu())
    strict();
  else
    CHECK_THROWS_WITH_AS(strict(), "[StepGraph] the step's inputs or mode are other ones than when it was captured",
                         Error);
}

TEST_CASE("what a captured step may not do throws, and the graph is usable afterwards") {
  Tensor x = ones({4}), y;
  bool look = false;
  StepGraph step(
      [&] {
        y = x * 2.0;
        if (look) y.add_(double(y.to_vector()[0]));
      },
      {.warm_up = 1});
  step();
  look = true;
  if (on_cpu()) {
    step();
  } else {
    CHECK_THROWS_AS(step(), Error);
    CHECK(!step.is_captured());
  }
  look = false;
  for (int k = 0; k < 3; ++k) step();
  CHECK(y.to_vector() == std::vector<float>(4, 2.f));
  CHECK(step.is_captured() == !on_cpu());
}

TEST_CASE("a step whose memory needs grow is run eagerly and captured again") {
  Tensor x = ones({4}), y;
  int64_t rows = 1;
  StepGraph step([&] { y = full({rows, 4}, 1.0) * 2.0; }, {.warm_up = 1});
  step();
  rows = 1 << 20;
  for (int k = 0; k < 4; ++k) step();
  CHECK(y.shape() == Dims{1 << 20, 4});
  CHECK(y.narrow(0, 0, 1).to_vector() == std::vector<float>(4, 2.f));
  CHECK(step.is_captured() == !on_cpu());
}

TEST_CASE("a StepGraph says what it can't work with") {
  CHECK_THROWS_WITH_AS(StepGraph([] {}, {.devices = {}}), "[StepGraph] no device", Error);
  CHECK_THROWS_AS(StepGraph([] {}, {.warm_up = 0}), Error);
  CHECK_THROWS_AS(StepGraph([] {}, {.devices = {cpu(63)}}), DeviceError);
}
