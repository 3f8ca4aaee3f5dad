#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/checkpoint.h>
#include <tandem/core/generator.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/dropout.h>
#include <tandem/ops/linear.h>
#include <tandem/ops/random.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// Two layers whose first is checkpointed or not, with gradients for x and all weights.
struct Net {
  Tensor x = random_tensor({4, 6}), w1 = random_tensor({8, 6}), b1 = random_tensor({8}), w2 = random_tensor({3, 8});
  std::vector<Tensor> all{x, w1, b1, w2};
  Net() {
    for (auto& t : all) t.set_requires_grad();
  }
  Net(const Net& o) {
    for (size_t i = 0; i < all.size(); ++i) {
      NoGradGuard no_grad;
      all[i].copy_(o.all[i]);
    }
    for (auto& t : all) t.set_requires_grad();
  }
  Tensor part(const Tensor& in) const { return relu(linear(in, w1, b1)) * in.mean(); }
  Tensor loss(bool with_checkpoint) const {
    Tensor h = with_checkpoint ? checkpoint([this](std::span<const Tensor> in) { return part(in[0]); }, {x}) : part(x);
    return sum(linear(h, w2)) + sum(w1 * w1);  // w1 is used outside, too
  }
};

void check_same_grads(const Net& a, const Net& b) {
  for (size_t i = 0; i < a.all.size(); ++i) {
    INFO("tensor ", i);
    CHECK(max_difference(a.all[i].grad(), b.all[i].grad()) < 1e-12);
  }
}

}  // namespace

TEST_CASE("checkpoint: values and gradients are those without it") {
  Net plain, saved(plain);
  Tensor a = plain.loss(false), b = saved.loss(true);
  CHECK(a.item<double>() == b.item<double>());
  a.backward();
  b.backward();
  check_same_grads(plain, saved);
  plain.loss(false).backward();  // accumulated
  saved.loss(true).backward();
  check_same_grads(plain, saved);
}

TEST_CASE("checkpoint: hooks run once, and an observer hears of every leaf in order") {
  struct Log final : GradObserver {
    std::vector<Leaf*> begun, finished;
    void begin(std::span<Leaf* const> l) override { begun.assign(l.begin(), l.end()); }
    void ready(Leaf* l) override { finished.push_back(l); }
    void done(std::exception_ptr) override {}
  } log;
  Net plain, saved(plain);
  int hooks = 0;
  for (auto* n : {&plain, &saved})
    n->w1.register_hook([&](const Tensor& g) {
      ++hooks;
      return g * 3.0;
    });
  for (auto& t : saved.all) t.leaf()->observer = &log;
  plain.loss(false).backward();
  saved.loss(true).backward();
  check_same_grads(plain, saved);
  CHECK(hooks == 2);
  CHECK(log.begun.size() == 4);
  CHECK(log.begun == log.finished);
}

TEST_CASE("checkpoint keeps nothing but its inputs") {
  Tensor x = random_tensor({64, 1000}, {.dtype = Dtype::f32});
  x.set_requires_grad();
  auto deep = [](std::span<const Tensor> in) {
    Tensor h = in[0];
    for (int i = 0; i < 10; ++i) h = h * h;
    return h;
  };
  const size_t before = memory_allocated();
  Tensor y = deep(std::span(&x, 1));
  const size_t plain = memory_allocated() - before;
  y = {};
  y = checkpoint(deep, {x});
  CHECK(memory_allocated() - before < plain / 4);
  sum(y).backward();
}

TEST_CASE("checkpoint repeats random draws, and leaves no trace of that") {
  auto noisy = [](std::span<const Tensor> in) {
    Tensor h = dropout(in[0] * 2.0, 0.5);
    return h * rand(h.shape(), {.dtype = Dtype::f64});
  };
  Tensor x = random_tensor({40, 5}), same = x.clone();
  x.set_requires_grad();
  same.set_requires_grad();
  manual_seed(3);
  Tensor a = sum(noisy(std::span(&x, 1)) * 7.0);
  const uint64_t calls = context().random.call;
  const std::string state = default_generator().state();
  a.backward();
  manual_seed(3);
  Tensor b = sum(checkpoint(noisy, {same}) * 7.0);
  CHECK(context().random.call == calls);
  CHECK(default_generator().state() == state);
  rand({10});  // other draws in between
  dropout(ones({4}));
  const std::string later = default_generator().state();
  b.backward();
  CHECK(a.item<double>() == b.item<double>());
  CHECK(same_bits(x.grad(), same.grad()));
  CHECK(default_generator().state() == later);
  CHECK(context().random.call == calls + 1);
  context().random = {};
}

TEST_CASE("checkpoint of several inputs, some without gradients or undefined") {
  Tensor a = random_tensor({3}), b = random_tensor({3}), c = random_tensor({3});
  a.set_requires_grad();
  c.set_requires_grad();
  auto f = [](std::span<const Tensor> in) {
    CHECK_FALSE(in[2].defined());
    return in[0] * in[1] + in[3] * in[3];
  };
  sum(checkpoint(f, {a, b, Tensor(), c})).backward();
  CHECK(max_difference(a.grad(), b) == 0);
  CHECK(max_difference(c.grad(), c.detach() * 2.0) == 0);
  CHECK_FALSE(b.grad().defined());
  // An input that is a result: its gradient goes on below it.
  Tensor y = sum(checkpoint(f, {a * 3.0, b, Tensor(), c}));
  a.zero_grad();
  y.backward();
  CHECK(max_difference(a.grad(), b * 3.0) < 1e-15);
}

TEST_CASE("checkpoint inside checkpoint, and twice over a retained graph") {
  Net plain, saved(plain);
  auto loss = [](const Net& n) {
    auto inner = [&n](std::span<const Tensor> in) { return relu(linear(in[0], n.w1, n.b1)); };
    auto outer = [&n, inner](std::span<const Tensor> in) { return linear(checkpoint(inner, {in[0]}), n.w2); };
    return sum(checkpoint(outer, {n.x}));
  };
  for (int i = 0; i < 2; ++i) sum(linear(relu(linear(plain.x, plain.w1, plain.b1)), plain.w2)).backward();
  Tensor y = loss(saved);
  y.backward({}, true);
  y.backward();
  check_same_grads(plain, saved);
}

TEST_CASE("checkpoint without grad mode, or of what needs none, just calls") {
  int runs = 0;
  auto f = [&](std::span<const Tensor> in) {
    ++runs;
    return in[0] * 2.0;
  };
  Tensor x = ones({2}, {.requires_grad = true});
  {
    NoGradGuard no_grad;
    CHECK_FALSE(checkpoint(f, {x}).requires_grad());
  }
  CHECK_FALSE(checkpoint(f, {ones({2})}).requires_grad());
  CHECK(runs == 2);
  sum(checkpoint(f, {x})).backward();
  CHECK(runs == 4);
  CHECK(x.grad().to_vector() == std::vector<float>{2, 2});
}

TEST_CASE("an exception in the second run reaches the caller, and the generator is as it was") {
  int runs = 0;
  auto f = [&](std::span<const Tensor> in) {
    rand({3});
    if (++runs == 2) throw ShapeError("second run");
    return in[0] * 2.0;
  };
  Tensor x = ones({2}, {.requires_grad = true});
  Tensor y = sum(checkpoint(f, {x}));
  rand({5});
  const std::string state = default_generator().state();
  CHECK_THROWS_WITH_AS(y.backward(), "second run", ShapeError);
  CHECK(default_generator().state() == state);
  CHECK(context().grad);
}

TEST_CASE("a result that a checkpointed part shares with the rest must be one of its inputs") {
  Tensor x = ones({2}, {.requires_grad = true});
  Tensor h = x * 2.0;
  auto captures = [&h](std::span<const Tensor> in) { return in[0] * h; };
  Tensor y = sum(checkpoint(captures, {x})) + sum(h);
  CHECK_THROWS_WITH_AS(y.backward(),
                       "[mul] this part of the graph was freed by an earlier backward; retain_graph = true keeps it",
                       Error);
  h = x * 2.0;
  auto takes = [](std::span<const Tensor> in) { return in[0] * in[1]; };
  x.zero_grad();
  (sum(checkpoint(takes, {x, h})) + sum(h)).backward();
  CHECK(x.grad().to_vector() == std::vector<float>{6, 6});
}
