#include "tests/support/op_case.h"

#include <tandem/core/autograd.h>
#include <tandem/ops/binary.h>
#include <tandem/ops/inplace.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

namespace {
uint32_t version(const Tensor& t) { return t.storage()->version.load(); }
using Values = std::vector<float>;
}  // namespace

TEST_CASE("values, with broadcasting, in every layout") {
  const Dims shape{2, 3, 4, 5};
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::i64})
    for (Layout layout : {Layout::row_major, Layout::channels_last})
      for (const Dims& other : {Dims{2, 3, 4, 5}, Dims{3, 1, 1}, Dims{5}, Dims{}}) {
        INFO(to_string(t), " ", to_string(layout), " ", to_string(other));
        Tensor x = random_tensor(shape, {.dtype = t, .layout = layout}, -9, 9);
        Tensor y = random_tensor(other, {.dtype = t}, -9, 9);
        Tensor sum = add(x, y, 2), product = x * y;
        void* memory = x.raw();
        CHECK(same_bits(x.clone().add_(y, 2), sum));
        CHECK(same_bits(x.clone().mul_(y), product));
        CHECK(same_bits(x.clone().copy_(y), y.expand(shape)));
        CHECK(same_bits(x.clone().add_(3), x + 3));
        CHECK(same_bits(x.clone().mul_(3), x * 3));
        CHECK(same_bits(x.clone().fill_(2), full(shape, 2, {.dtype = t})));
        CHECK(same_bits(x.clone().zero_(), zeros(shape, {.dtype = t})));
        // Through a view of every second element.
        Tensor wide = zeros({2, 3, 4, 10}, {.dtype = t}), part = wide.slice(3, 1, 10, 2);
        CHECK(same_bits(part.copy_(x).add_(y, 2), sum));
        CHECK(same_bits(part.copy_(x).mul_(y), product));
        CHECK(same_bits(part.copy_(x).add_(3).mul_(3), (x + 3) * 3));
        CHECK(same_bits(wide.slice(3, 0, 10, 2), zeros(shape, {.dtype = t})));
        CHECK(x.raw() == memory);
      }
}

TEST_CASE("the memory, the handle and all its copies see the change, and it counts as one") {
  Tensor x = ones({3}), same = x;
  const void* memory = x.raw();
  const uint32_t before = version(x);
  x.add_(1).mul_(2).add_(ones({3})).mul_(ones({1})).copy_(ones({3})).fill_(7).zero_();
  CHECK(version(x) == before + 7);
  CHECK(x.raw() == memory);
  CHECK(same.to_vector() == Values{0, 0, 0});
}

TEST_CASE("other dtypes are converted, but floats do not go into integers") {
  Tensor h = full({2}, 256, {.dtype = Dtype::bf16});
  h.add_(full({2}, 1.5));  // 257.5 in f32, rounded once
  CHECK(h.to_vector() == Values{258, 258});
  Tensor n = tensor<int64_t>({1, 2});
  n.add_(tensor<int32_t>({5, 6}));
  n.mul_(2);
  CHECK(n.to_vector<int64_t>() == std::vector<int64_t>{12, 16});
  CHECK_THROWS_AS(n.add_(ones({2})), DtypeError);
  CHECK_THROWS_AS(n.add_(tensor<int32_t>({5, 6}), 0.5), DtypeError);
  CHECK_THROWS_AS(n.mul_(1.5), DtypeError);
  n.copy_(full({2}, 3.7));  // copy_ cuts
  CHECK(n.to_vector<int64_t>() == std::vector<int64_t>{3, 3});
}

TEST_CASE("operands that overlap") {
  Tensor x = arange(0, 6, 1, {.dtype = Dtype::f32});
  x.narrow(0, 1, 5).copy_(x.narrow(0, 0, 5));
  CHECK(x.to_vector() == Values{0, 0, 1, 2, 3, 4});
  x.narrow(0, 1, 5).add_(x.narrow(0, 0, 5));
  CHECK(x.to_vector() == Values{0, 0, 1, 3, 5, 7});
  x.add_(x);
  CHECK(x.to_vector() == Values{0, 0, 2, 6, 10, 14});
  x.mul_(x.select(0, 3));
  CHECK(x.to_vector() == Values{0, 0, 12, 36, 60, 84});
}

TEST_CASE("copy_ between devices") {
  set_cpu_devices(2);
  Tensor a = random_tensor({2, 3}, {.dtype = Dtype::f32}), b = zeros({2, 3}, {.dtype = Dtype::f64, .device = cpu(1)});
  b.copy_(a);
  CHECK(max_difference(a, b) == 0);
  Tensor x = random_tensor({3}, {.dtype = Dtype::f32, .requires_grad = true});
  Tensor y = zeros({2, 3}, {.dtype = Dtype::f64, .device = cpu(1)});
  y.copy_(x);
  y.backward(ones({2, 3}, {.dtype = Dtype::f64, .device = cpu(1)}));
  CHECK(x.grad().to_vector() == Values{2, 2, 2});
}

TEST_CASE("changes of intermediate results are recorded") {
  auto check_recorded = [](const std::string& name, Tensor (*f)(const std::vector<Tensor>&)) {
    check_op({.name = name, .inputs = {{.shape = {2, 3, 4, 5}}, {.shape = {3, 1, 1}}}, .run = f});
  };
  check_recorded("add_", [](auto& in) { return (in[0] * 2).add_(in[1], 3); });
  check_recorded("mul_", [](auto& in) { return (in[0] * 2).mul_(in[1]); });
  check_recorded("numbers", [](auto& in) { return (in[0] * in[1]).add_(1).mul_(2); });
  check_recorded("by itself", [](auto& in) {
    Tensor y = in[0] * in[1];
    return y.mul_(y).add_(y);
  });
  check_recorded("into a constant", [](auto& in) {
    return zeros({2, 3, 4, 5}, {.dtype = in[0].dtype()}).add_(in[0]).add_(in[1]);
  });
  check_recorded("copy_", [](auto& in) { return (in[0] * 2).copy_(in[1]).add_(in[0]); });
}

TEST_CASE("fill_, zero_ and copy_ of a constant cut a tensor off from its history") {
  Tensor x = ones({2}).set_requires_grad();
  CHECK(!(x * 2).zero_().requires_grad());
  CHECK(!(x * 2).fill_(3).requires_grad());
  CHECK(!(x * 2).copy_(ones({2})).requires_grad());
  Tensor y = (x * 2).copy_(ones({2})).add_(x * 3);
  y.backward(ones({2}));
  CHECK(x.grad().to_vector() == Values{3, 3});
}

TEST_CASE("leaves change outside recording only") {
  Tensor w = ones({2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(w.add_(1),
                       "[add_] a leaf that requires grad can't be changed in place while ops are recorded: "
                       "NoGradGuard stops recording",
                       Error);
  CHECK_THROWS_AS(w.mul_(ones({2})), Error);
  CHECK_THROWS_AS(w.copy_(ones({2})), Error);
  CHECK_THROWS_AS(w.zero_(), Error);
  CHECK_THROWS_AS(w.narrow(0, 0, 1).fill_(2), Error);
  CHECK(w.to_vector() == Values{1, 1});
  NoGradGuard no_grad;
  w.add_(1).mul_(3);
  CHECK(w.is_leaf());
  CHECK(w.requires_grad());
  CHECK(w.to_vector() == Values{6, 6});
}

TEST_CASE("what a recorded change would leave behind is refused") {
  Tensor x = ones({2, 2}).set_requires_grad();
  Tensor y = x * 2, view = y.select(0, 0);
  CHECK_THROWS_AS(y.mul_(3), Error);
  CHECK_THROWS_AS(view.mul_(3), Error);
  CHECK_THROWS_AS(relu(x).add_(1), Error);  // relu saved its result
  Tensor out = zeros({2, 2});
  CHECK_THROWS_AS(out.select(0, 0).copy_(x.select(0, 0)), Error);
  view = {};
  y.mul_(3);
  y.backward(ones({2, 2}));
  CHECK(x.grad().to_vector() == Values{6, 6, 6, 6});
}

TEST_CASE("a change under no_grad is seen by what was saved before") {
  Tensor x = ones({2}).set_requires_grad();
  Tensor y = x * x;
  {
    NoGradGuard no_grad;
    x.add_(1);
  }
  CHECK_THROWS_AS(y.backward(ones({2})), Error);
}

TEST_CASE("shapes that do not fit") {
  Tensor x = zeros({3});
  CHECK_THROWS_WITH_AS(x.add_(ones({2, 3})), "[add_] [2,3] does not broadcast into [3]", ShapeError);
  CHECK_THROWS_AS(x.mul_(ones({2})), ShapeError);
  CHECK_THROWS_AS(x.copy_(ones({4})), ShapeError);
  CHECK_THROWS_AS(x.expand({2, 3}).add_(1), ShapeError);
  CHECK(zeros({0, 3}).add_(ones({3})).numel() == 0);
}
