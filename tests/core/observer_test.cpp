// What data parallelism hears of a backward: begin, ready for each leaf, done.
#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/core/copy.h>
#include <tandem/core/record.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/reduce.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Log final : GradObserver {
  std::vector<Leaf*> begun, finished;
  std::vector<std::string> events;
  std::function<void(const std::string&)> at = [](const std::string&) {};
  bool done_with_error = false;

  void begin(std::span<Leaf* const> leaves) override {
    begun.assign(leaves.begin(), leaves.end());
    note("begin");
  }
  void ready(Leaf* l) override {
    finished.push_back(l);
    CHECK(l->written);
    note("ready");
  }
  void done(std::exception_ptr error) override {
    done_with_error = bool(error);
    note("done");
  }
  void note(const std::string& event) {
    events.push_back(event);
    at(event);
  }
};

Tensor leaf(Log& log) {
  Tensor x = random_tensor({3}, {.dtype = Dtype::f32});
  x.set_requires_grad();
  x.leaf()->observer = &log;
  return x;
}

using Events = std::vector<std::string>;

}  // namespace

TEST_CASE("begin lists the leaves that this graph reaches, in the order in which they become ready") {
  Log log;
  Tensor a = leaf(log), b = leaf(log), c = leaf(log), unused = leaf(log), free = leaf(log);
  free.leaf()->observer = nullptr;
  Tensor y = sum(((a * b) + free) * c + b);
  const std::vector<Leaf*> order = finish_order(y);
  y.backward();
  CHECK(log.events == Events{"begin", "ready", "ready", "ready", "done"});
  CHECK(log.begun == log.finished);
  CHECK(log.begun == std::vector<Leaf*>{c.leaf(), b.leaf(), a.leaf()});  // b is used twice: ready with its last use
  std::vector<Leaf*> observed;
  for (Leaf* l : order)
    if (l->observer) observed.push_back(l);
  CHECK(observed == log.begun);
  CHECK(order.size() == 4);
  CHECK_FALSE(log.done_with_error);
}

TEST_CASE("leaves of one op become ready last input first: in reversed registration") {
  Log log;
  Tensor x = random_tensor({3}, {.dtype = Dtype::f32}), w = leaf(log), b = leaf(log);
  Tensor y = record("op", copy_of(x, x.options()), {x, w, b}, [](Tensor& gy, Targets t) {
    t[1].give(gy);
    t[2].give(gy);
  });
  sum(y).backward();
  CHECK(log.finished == std::vector<Leaf*>{b.leaf(), w.leaf()});
}

TEST_CASE("a leaf is ready though its target was never touched, and as the root itself") {
  Log log;
  log.at = [](const std::string&) {};
  Tensor w = random_tensor({3}, {.dtype = Dtype::f32}), v = leaf(log);
  struct Quiet final : GradObserver {
    int ready_calls = 0;
    void begin(std::span<Leaf* const>) override {}
    void ready(Leaf*) override { ++ready_calls; }
    void done(std::exception_ptr) override {}
  } quiet;
  w.set_requires_grad();
  w.leaf()->observer = &quiet;
  sum(record("op", copy_of(w, w.options()), {w}, [](Tensor&, Targets) {})).backward();
  CHECK(quiet.ready_calls == 1);
  CHECK_FALSE(w.grad().defined());
  v.backward(ones({3}));
  CHECK(log.events == Events{"begin", "ready", "done"});
}

TEST_CASE("each observer hears of its own leaves") {
  Log one, two;
  Tensor a = leaf(one), b = leaf(two), c = leaf(one);
  sum(a * b * c).backward();
  CHECK(one.begun.size() == 2);
  CHECK(two.begun == std::vector<Leaf*>{b.leaf()});
  CHECK(two.events == Events{"begin", "ready", "done"});
  one = {};
  two = {};
  sum(a * c).backward();
  CHECK(one.events.size() == 4);
  CHECK(two.events.empty());
}

TEST_CASE("with a hook the leaf is ready once the hook's result has been added") {
  Log log;
  Tensor x = leaf(log);
  std::vector<float> at_ready;
  x.register_hook([](const Tensor& g) { return g * 3.0; });
  log.at = [&](const std::string& event) {
    if (event == "ready") at_ready = x.grad().to_vector();
  };
  sum(x + x).backward();
  CHECK(at_ready == std::vector<float>{6, 6, 6});
  CHECK(log.events == Events{"begin", "ready", "done"});
}

TEST_CASE("done comes also when a closure throws, with what it threw") {
  Log log;
  Tensor x = leaf(log), y = leaf(log);
  Tensor bad = record("bad", copy_of(x, x.options()), {x}, [](Tensor&, Targets) { throw ShapeError("closure"); });
  CHECK_THROWS_WITH_AS(sum(bad * y).backward(), "closure", ShapeError);
  CHECK(log.events == Events{"begin", "ready", "done"});
  CHECK(log.done_with_error);
  log = {};
  x.leaf()->observer = y.leaf()->observer = &log;
  sum(x * y).backward();
  CHECK(log.events == Events{"begin", "ready", "ready", "done"});
}

TEST_CASE("observers may throw, too: those that began hear of the end") {
  Log one, two;
  Tensor a = leaf(one), b = leaf(two);
  auto fail_at = [](const std::string& when) {
    return [when](const std::string& event) {
      if (event == when) throw CommError("observer fails at " + when);
    };
  };
  two.at = fail_at("begin");  // `one` has begun by then
  CHECK_THROWS_WITH_AS(sum(a * b).backward(), "observer fails at begin", CommError);
  CHECK(one.events == Events{"begin", "done"});
  CHECK(one.done_with_error);
  CHECK(two.events == Events{"begin"});
  two.at = [](const std::string&) {};
  one.at = fail_at("ready");
  one.events.clear();
  two.events.clear();
  CHECK_THROWS_WITH_AS(sum(a * b).backward(), "observer fails at ready", CommError);
  CHECK(one.events.back() == "done");
  CHECK(two.events.back() == "done");
  CHECK(one.done_with_error);
  one.at = fail_at("done");
  CHECK_THROWS_WITH_AS(sum(a * b).backward(), "observer fails at done", CommError);
  CHECK(two.events.back() == "done");
  CHECK_FALSE(two.done_with_error);
  one.at = [](const std::string&) {};
  CHECK_NOTHROW(sum(a * b).backward());
}

TEST_CASE("a nested backward leaves counts, hooks and observers to the outer one") {
  Log log;
  Tensor w = leaf(log);
  int hooks = 0;
  Tensor v = leaf(log);
  v.register_hook([&](const Tensor&) {
    ++hooks;
    return Tensor();
  });
  Tensor x = random_tensor({3}, {.dtype = Dtype::f32});
  Tensor y = record("outer", copy_of(x, x.options()), {w, v}, [&](Tensor& gy, Targets) {
    EnableGradGuard enable;
    Tensor inner = w * v;
    backward(std::span(&inner, 1), std::span(&gy, 1), {.nested = true});
    CHECK(log.events == Events{"begin"});
    CHECK(hooks == 0);
  });
  sum(y + w * 2.0).backward();
  CHECK(log.events == Events{"begin", "ready", "ready", "done"});
  CHECK(hooks == 1);
  auto wv = w.to_vector(), vv = v.to_vector();
  for (size_t i = 0; i < 3; ++i) {
    CHECK(w.grad().to_vector()[i] == doctest::Approx(vv[i] + 2));
    CHECK(v.grad().to_vector()[i] == doctest::Approx(wv[i]));
  }
}
