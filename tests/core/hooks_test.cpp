#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/reduce.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor leaf(std::initializer_list<float> values) { return tensor(values, {.requires_grad = true}); }
using Values = std::vector<float>;

}  // namespace

TEST_CASE("a hook on a result sees its gradient, and may replace it") {
  Tensor x = leaf({1, 2}), y = x * 3.0;
  Values seen;
  y.register_hook([&](const Tensor& g) {
    seen = g.to_vector();
    return Tensor();  // leaves it as it is
  });
  y.register_hook([](const Tensor& g) { return g * 10.0; });
  y.register_hook([&](const Tensor& g) {
    CHECK(g.to_vector() == Values{20, 20});  // in the order they were registered
    return Tensor();
  });
  sum(y + y).backward();
  CHECK(seen == Values{2, 2});  // once, with the sum of both uses
  CHECK(x.grad().to_vector() == Values{60, 60});
}

TEST_CASE("a hook on a leaf sees what one backward contributes, before it is added") {
  Tensor b = leaf({1, 2, 3, 4});
  int calls = 0;
  Values seen;
  b.register_hook([&](const Tensor& g) {
    ++calls;
    seen = g.to_vector();
    return g * 10.0;
  });
  sum(b * b + b).backward();
  CHECK(seen == Values{3, 5, 7, 9});
  CHECK(b.grad().to_vector() == Values{30, 50, 70, 90});
  sum(b).backward();
  CHECK(calls == 2);
  CHECK(seen == Values{1, 1, 1, 1});
  CHECK(b.grad().to_vector() == Values{40, 60, 80, 100});
}

TEST_CASE("hooks are removed by their number, also by themselves") {
  Tensor x = leaf({1});
  int first = 0, second = 0, id = 0;
  const int removed = x.register_hook([&](const Tensor&) {
    ++first;
    return Tensor();
  });
  id = x.register_hook([&](const Tensor&) {
    ++second;
    x.remove_hook(id);
    return Tensor();
  });
  CHECK(removed != id);
  sum(x * 2.0).backward();
  CHECK(first == 1);
  CHECK(second == 1);
  x.remove_hook(removed);
  x.remove_hook(removed);  // gone already
  x.remove_hook(12345);
  sum(x * 2.0).backward();
  CHECK(first == 1);
  CHECK(second == 1);
  CHECK(x.grad().to_vector() == Values{4});
  Tensor none = zeros({1});
  CHECK_NOTHROW(none.remove_hook(0));
  CHECK_THROWS_WITH_AS(none.register_hook([](const Tensor&) { return Tensor(); }),
                       "[register_hook] this tensor does not require grad", Error);
}

TEST_CASE("a leaf that is a root and used below it has one gradient and one call of its hook") {
  Tensor x = leaf({2});
  int calls = 0;
  x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  const Tensor roots[] = {x * x, x};
  const Tensor grads[] = {ones({1}), full({1}, 10)};
  backward(roots, grads);
  CHECK(calls == 1);
  CHECK(x.grad().to_vector() == Values{14});
}

TEST_CASE("a hook that throws stops the backward; the next one is clean") {
  Tensor x = leaf({1}), y = leaf({1});
  bool fail = true;
  x.register_hook([&](const Tensor&) {
    if (fail) throw Error("hook");
    return Tensor();
  });
  CHECK_THROWS_WITH_AS(sum(x * 2.0).backward(), "hook", Error);
  CHECK_FALSE(x.grad().defined());
  fail = false;
  sum(x * 3.0).backward();
  CHECK(x.grad().to_vector() == Values{3});
}

TEST_CASE("what a hook gets stays as it is, whatever happens afterwards") {
  Tensor x = leaf({1, 2}), y = x * 1.0, kept;
  y.register_hook([&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  sum(y * 2.0).backward();
  sum(x * 5.0).backward();
  CHECK(kept.to_vector() == Values{2, 2});
}

TEST_CASE("a hook that removes itself does not keep the next one from being called") {
  Tensor x = leaf({1});
  int id = 0, calls = 0;
  id = x.register_hook([&](const Tensor&) {
    x.remove_hook(id);
    return Tensor();
  });
  x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  sum(x * 2.0).backward();
  CHECK(calls == 1);
}

TEST_CASE("the number of a removed hook is not given again") {
  Tensor x = leaf({1});
  int calls = 0;
  const int stale = x.register_hook([](const Tensor&) { return Tensor(); });
  x.remove_hook(stale);
  x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  x.remove_hook(stale);
  sum(x).backward();
  CHECK(calls == 1);
}

TEST_CASE("a hook's gradient must be of its tensor's shape and type") {
  Tensor x = leaf({1, 2}), y = x * 3.0;
  const int id = y.register_hook([](const Tensor&) { return ones({3}); });
  CHECK_THROWS_WITH_AS(sum(y).backward({}, true),
                       "[register_hook] a hook made a gradient of shape [3] for a tensor of shape [2]", ShapeError);
  y.remove_hook(id);
  y.register_hook([](const Tensor& g) { return g.to(Dtype::f64); });
  CHECK_THROWS_AS(sum(y * 1.0).backward(), DtypeError);
  CHECK_FALSE(x.grad().defined());
}
