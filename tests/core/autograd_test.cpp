// The tape and the engine: what gradients are, where they go, and when things are freed.
#include "tests/support/child.h"
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/record.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/concat.h>
#include <tandem/ops/reduce.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <cmath>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor leaf(const Dims& shape, Dtype t = Dtype::f64) {
  Tensor x = random_tensor(shape, {.dtype = t});
  return x.set_requires_grad();
}

// x again, with this closure for its gradient.
template <class F>
Tensor identity(const char* name, const Tensor& x, F f) {
  return record(name, copy_of(x, x.options()), {x}, std::move(f));
}
Tensor identity(const char* name, const Tensor& x) {
  return identity(name, x, [](Tensor& gy, Targets t) { t[0].give(gy); });
}

}  // namespace

TEST_CASE("gradients of several uses add up, also where one gradient is given to two") {
  Tensor a = leaf({4}), b = leaf({4});
  Tensor c = a * b, d = c + c, e = d + c, f = e * a + d;  // f = 3a²b + 2ab
  sum(f + a).backward();
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  auto ga = a.grad().to_vector<double>(), gb = b.grad().to_vector<double>();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(ga[i] == doctest::Approx(6 * x[i] * y[i] + 2 * y[i] + 1));
    CHECK(gb[i] == doctest::Approx(3 * x[i] * x[i] + 2 * x[i]));
  }
}

TEST_CASE("a parameter used many times") {
  Tensor w = leaf({3});
  Tensor y = w;
  for (int i = 0; i < 50; ++i) y = y + w * double(i);
  sum(y).backward();
  CHECK(w.grad().to_vector() == std::vector<float>(3, 1226));
}

TEST_CASE("the gradient a backward starts from is not written over") {
  Tensor x = leaf({5}), g = random_tensor({5}), before = copy_of(g, g.options());
  relu(x + 1.0).backward(g);  // relu and add pass gradients on in place where they may
  CHECK(same_bits(g, before));
  Tensor y = x + x;
  y.backward(g);
  CHECK(same_bits(g, before));
}

TEST_CASE("backwards accumulate in the same memory; zero_grad marks it absent") {
  Tensor x = leaf({2}, Dtype::f32);
  CHECK_FALSE(x.grad().defined());
  sum(x * 3.0).backward();
  Tensor g = x.grad();
  CHECK(g.to_vector() == std::vector<float>{3, 3});
  sum(x * 2.0).backward();
  CHECK(x.grad().raw() == g.raw());
  CHECK(g.to_vector() == std::vector<float>{5, 5});
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  sum(x * 7.0).backward();
  CHECK(g.to_vector() == std::vector<float>{7, 7});  // overwritten, not added to
  CHECK(x.grad().is_same(g));
}

TEST_CASE("several roots, each with a gradient of its own; a leaf may be one, a root may come twice") {
  Tensor x = leaf({2}, Dtype::f32), y = x * 2.0, z = y * 5.0;
  const Tensor roots[] = {z, y, x, y};
  const Tensor grads[] = {tensor({1.f, 0.f}), tensor({10.f, 0.f}), tensor({100.f, 0.f}), tensor({0.f, 1.f})};
  backward(roots, grads);
  CHECK(x.grad().to_vector() == std::vector<float>{10 + 20 + 100, 2});
  CHECK_THROWS_WITH_AS(backward(std::span(roots, 2), std::span(grads, 1)), "[backward] 2 roots, 1 gradients", Error);
  const Tensor wrong[] = {zeros({3})};
  CHECK_THROWS_WITH_AS(backward(std::span(roots, 1), wrong), "[backward] a root of shape [2], its gradient of [3]",
                       ShapeError);
}

TEST_CASE("what backward needs to start") {
  Tensor x = leaf({2});
  CHECK_THROWS_WITH_AS(ones({1}).backward(),
                       "[backward] this tensor does not require grad and comes from nothing that does", Error);
  CHECK_THROWS_WITH_AS(
      (x * 2.0).backward(),
      "[backward] a gradient to start from is needed for a tensor of shape [2], it is 1 for one element "
      "only",
      ShapeError);
  CHECK_THROWS_AS((x * 2.0).backward(ones({3})), ShapeError);
  sum(x).backward();
  CHECK(x.grad().to_vector() == std::vector<float>{1, 1});
  Tensor s = full({1, 1}, 3, {.requires_grad = true});
  (s * s).backward();
  CHECK(s.grad().item() == 6);
}

TEST_CASE("retain_graph keeps a graph for another backward; else it is freed, and says so before it writes") {
  Tensor x = leaf({3});
  Tensor y = sum(x * x);
  y.backward({}, true);
  auto g = x.grad().to_vector<double>();
  y.backward();
  for (size_t i = 0; i < 3; ++i) CHECK(x.grad().to_vector<double>()[i] == 2 * g[i]);
  CHECK_THROWS_WITH_AS(y.backward(),
                       "[sum] this part of the graph was freed by an earlier backward; retain_graph = true keeps it",
                       Error);
  Tensor shared = x * x, first = sum(shared), second = sum(shared + x);
  first.backward();
  x.zero_grad();
  CHECK_THROWS_WITH_AS(second.backward(), doctest::Contains("[mul] this part of the graph was freed"), Error);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("a saved tensor that was changed in place names the op") {
  Tensor x = leaf({3}), w = random_tensor({3});
  Tensor y = sum(x * w);
  w.fill_(2);
  CHECK_THROWS_WITH_AS(y.backward(),
                       "[mul] a tensor of shape [3] that was saved for backward was changed in place since; change a "
                       "clone() instead",
                       Error);
  y = sum(x * w);
  w.detach().add_(1.0);  // through another handle
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("changed in place"), Error);
  y = sum(x + w);
  w.fill_(3);  // add saves nothing
  CHECK_NOTHROW(y.backward());
}

TEST_CASE("leaves and results") {
  Tensor x = zeros({2});
  CHECK(x.is_leaf());
  CHECK_FALSE(x.requires_grad());
  x.set_requires_grad();
  CHECK(x.is_leaf());
  Tensor y = x * 2.0;
  CHECK(y.requires_grad());
  CHECK_FALSE(y.is_leaf());
  CHECK_FALSE(y.grad().defined());
  CHECK_FALSE(y.detach().requires_grad());
  CHECK(y.detach().is_leaf());
  CHECK_THROWS_WITH_AS(y.set_requires_grad(false),
                       "[set_requires_grad] this tensor is the result of mul; detach() gives one outside the graph",
                       Error);
  x.set_requires_grad(false);
  CHECK_FALSE((x * 2.0).requires_grad());
  Tensor i = zeros({2}, {.dtype = Dtype::i64});
  CHECK_THROWS_WITH_AS(i.set_requires_grad(), "[set_requires_grad] only floating tensors have gradients, this is i64",
                       DtypeError);
}

TEST_CASE("without grad mode nothing is recorded") {
  Tensor x = leaf({2});
  {
    NoGradGuard no_grad;
    CHECK_FALSE((x * x).requires_grad());
  }
  bool recorded = true;
  Tensor y = identity("op", x, [&](Tensor& gy, Targets t) {
    recorded = context().grad;  // gradients are not recorded either
    t[0].give(gy);
  });
  sum(y).backward();
  CHECK_FALSE(recorded);
  CHECK(context().grad);
}

TEST_CASE("a target that nobody wants is false; one that is not touched is no gradient") {
  Tensor a = leaf({2}), b = random_tensor({2}), c = leaf({2});
  bool wanted[3];
  Tensor y = record("op", copy_of(a, a.options()), {a, b, c, Tensor()}, [&](Tensor& gy, Targets t) {
    CHECK(t.size() == 4);
    for (size_t i = 0; i < 3; ++i) wanted[i] = bool(t[i]);
    CHECK_FALSE(bool(t[3]));
    CHECK(t[0].shape() == Dims{2});
    t[0].give(gy);
  });
  sum(y).backward();
  CHECK(wanted[0]);
  CHECK_FALSE(wanted[1]);
  CHECK(wanted[2]);
  CHECK(a.grad().defined());
  CHECK_FALSE(c.grad().defined());

  // Nothing below an untouched target runs.
  bool ran = false;
  Tensor below = identity("below", a, [&](Tensor& gy, Targets t) {
    ran = true;
    t[0].give(gy);
  });
  sum(record("op", copy_of(a, a.options()), {below}, [](Tensor&, Targets) {})).backward();
  CHECK_FALSE(ran);
}

TEST_CASE("a gradient of the wrong shape is refused, naming whose it is") {
  Tensor x = leaf({2});
  Tensor y = identity("outer", identity("inner", x), [](Tensor&, Targets t) { t[0].give(zeros({3})); });
  CHECK_THROWS_WITH_AS(sum(y).backward(), "[inner] its gradient has shape [3], not [2]", ShapeError);
}

TEST_CASE("ops of many inputs") {
  std::vector<Tensor> xs;
  for (int i = 0; i < 20; ++i) xs.push_back(leaf({1}, Dtype::f32));
  cat(xs).backward(arange(0, 20, 1, {.dtype = Dtype::f32}));
  for (int i = 0; i < 20; ++i) CHECK(xs[size_t(i)].grad().item() == float(i));
}

TEST_CASE("gradients come in the dtype and a dense layout of what they belong to") {
  Tensor x = full({2}, 1, {.dtype = Dtype::bf16, .requires_grad = true});
  Tensor wide = x.to(Dtype::f32);
  sum(wide * 3.0).backward();
  CHECK(x.grad().dtype() == Dtype::bf16);
  CHECK(x.grad().to_vector() == std::vector<float>{3, 3});
  Tensor image = random_tensor({1, 2, 3, 4}, {.layout = Layout::channels_last});
  image.set_requires_grad();
  sum(image * 2.0).backward();
  CHECK(image.grad().strides() == image.strides());
  Tensor strided = zeros({4, 4}).alias({4, 2}, {4, 2}, 0);
  strided.set_requires_grad();
  sum(strided * 2.0).backward();
  CHECK(strided.grad().is_contiguous());
  CHECK(strided.grad().to_vector() == std::vector<float>(8, 2.f));
}

TEST_CASE("100,000 nodes in a row: recorded, run backward, destroyed, all without recursion") {
  Tensor x = ones({2}, {.requires_grad = true});
  for (bool run : {false, true}) {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = identity("step", y);
    if (run) sum(y).backward();
  }
  CHECK(x.grad().to_vector() == std::vector<float>{1, 1});
  // The same with a wide middle: each node is reached from two.
  x.zero_grad();
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y + y;
  for (int i = 0; i < 10000; ++i) y = y + x;
  sum(y).backward();
  CHECK(x.grad().to_vector() == std::vector<float>{1024 + 10000, 1024 + 10000});
}

// Destroyed after the thread's own variables are gone.
static Tensor held_to_the_end;

TEST_CASE("child: a graph is held by a static tensor" * doctest::skip()) {
  Tensor x = leaf({2});
  held_to_the_end = x;
  for (int i = 0; i < 100; ++i) held_to_the_end = held_to_the_end + x;
}

TEST_CASE("a graph may outlive main") { CHECK(passes_in_child("child: a graph is held by a static tensor", {})); }

TEST_CASE("what a closure holds is freed as soon as it has run") {
  float memory[2] = {1, 2};
  bool released = false, seen = false;
  Tensor x = leaf({2}, Dtype::f32);
  Tensor early = identity("early", x, [&](Tensor& gy, Targets t) {
    seen = released;
    t[0].give(gy);
  });
  Tensor late = [&] {
    Tensor blob = from_blob(memory, {2}, [&](void*) { released = true; });
    return early * blob;
  }();
  Tensor y = sum(late);
  CHECK_FALSE(released);
  y.backward();
  CHECK(seen);
  // With retain_graph it stays until the graph goes.
  released = false;
  {
    Tensor z = [&] { return sum(x * from_blob(memory, {2}, [&](void*) { released = true; })); }();
    z.backward({}, true);
    CHECK_FALSE(released);
  }
  CHECK(released);
}

TEST_CASE("a closure can ask whether the graph is retained") {
  Tensor x = leaf({1});
  std::vector<bool> seen;
  Tensor y = identity("op", x, [&](Tensor& gy, Targets t) {
    seen.push_back(context().retain_graph);
    t[0].give(gy);
  });
  y.backward(ones({1}), true);
  y.backward(ones({1}));
  CHECK(seen == std::vector<bool>{true, false});
  CHECK_FALSE(context().retain_graph);
}

TEST_CASE("an exception in a closure leaves nothing half done") {
  Tensor x = leaf({2}, Dtype::f32), other = leaf({2}, Dtype::f32);
  bool fail = true;
  auto graph = [&] {
    Tensor mid = identity("mid", x);
    Tensor bad = identity("bad", mid, [&](Tensor& gy, Targets t) {
      t[0].give(gy);
      if (fail) throw ShapeError("a closure fails");
    });
    return sum(bad + mid + other);
  };
  CHECK_THROWS_WITH_AS(graph().backward(), "a closure fails", ShapeError);
  CHECK(context().grad);
  CHECK_FALSE(context().retain_graph);
  CHECK_FALSE(x.grad().defined());
  fail = false;
  x.zero_grad();
  other.zero_grad();
  graph().backward();
  CHECK(x.grad().to_vector() == std::vector<float>{2, 2});
  CHECK(other.grad().to_vector() == std::vector<float>{1, 1});
  // With a retained graph the very same nodes run again, and nothing of the failed run is in them.
  fail = true;
  Tensor y = graph();
  CHECK_THROWS_AS(y.backward({}, true), ShapeError);
  fail = false;
  x.zero_grad();
  y.backward();
  CHECK(x.grad().to_vector() == std::vector<float>{2, 2});
}

TEST_CASE("detect_anomaly names the first op whose gradient is not finite") {
  Tensor x = leaf({2}, Dtype::f32);
  auto spoil = [](Tensor& gy, Targets t) { t[0].give(full(gy.shape(), NAN)); };
  Tensor y = sum(identity("after", identity("culprit", identity("before", x), spoil)));
  {
    DetectAnomalyGuard detect;
    CHECK_THROWS_WITH_AS(
        y.backward({}, true),
        "[detect_anomaly] culprit produced a gradient that is not finite, for its input 0 of shape [2]", Error);
    CHECK_THROWS_WITH_AS(sum(identity("at a leaf", x, spoil)).backward(), doctest::Contains("at a leaf produced"),
                         Error);
    x.zero_grad();
    CHECK_NOTHROW(sum(identity("fine", x)).backward());
  }
  CHECK_NOTHROW(y.backward());
}

TEST_CASE("threads run forward and backward side by side") {
  Tensor shared = random_tensor({50});  // values are read by all
  std::vector<Tensor> weights;
  for (int k = 0; k < 4; ++k) weights.push_back(leaf({50}));
  std::vector<std::thread> threads;
  for (auto& w : weights)
    threads.emplace_back([&w, &shared] {
      for (int step = 0; step < 100; ++step) {
        w.zero_grad();
        Tensor y = w * shared;
        for (int i = 0; i < 10; ++i) y = relu(y) + w;
        sum(y).backward();
      }
    });
  for (auto& t : threads) t.join();
  for (auto& w : weights) {
    Tensor again = w.detach();
    again.set_requires_grad();
    Tensor y = again * shared;
    for (int i = 0; i < 10; ++i) y = relu(y) + again;
    sum(y).backward();
    CHECK(same_bits(w.grad(), again.grad()));
  }
}

TEST_CASE("a closure that throws leaves no gradient in windows that it had only begun to write") {
  Tensor a = leaf({2}), b = leaf({2});
  sum(b).backward();
  bool fail = true;
  auto run = [&] {
    Tensor y = record("fails", zeros({2}, {.dtype = Dtype::f64}), {a, b}, [&fail](Tensor& gy, Targets t) {
      Out of_a = t[0].out();
      t[1].give(gy);
      if (fail) throw Error("no memory");
      copy_into(of_a, gy);
    });
    sum(y).backward();
  };
  CHECK_THROWS_WITH_AS(run(), "no memory", Error);
  CHECK_FALSE(a.grad().defined());
  CHECK(b.grad().defined());
  fail = false;
  run();
  CHECK(a.grad().to_vector() == std::vector<float>{1, 1});
}

TEST_CASE("a hook may let go of the loss while its backward runs") {
  Tensor w = leaf({3});
  Tensor y = identity("first", w * 2.), loss = sum(identity("second", y));
  y.register_hook([&](const Tensor&) {
    loss = Tensor();
    y = Tensor();
    return Tensor();
  });
  loss.backward();
  CHECK_FALSE(loss.defined());
  CHECK(w.grad().to_vector() == std::vector<float>(3, 2));
}
