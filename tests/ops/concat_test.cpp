#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/concat.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("cat", [](GoldenCall& c) { return cat(c.in, int(c.args.integer("dim", 0))); });
TANDEM_GOLDEN("stack", [](GoldenCall& c) { return stack(c.in, int(c.args.integer("dim", 0))); });

namespace {

using Values = std::vector<std::vector<double>>;

// cat of row-major inputs that agree in `outer` (product of the sizes before dim) and have these run lengths.
std::vector<double> joined(const Values& in, size_t outer) {
  std::vector<double> y;
  for (size_t o = 0; o < outer; ++o)
    for (auto& v : in) {
      size_t run = v.size() / outer;
      y.insert(y.end(), v.begin() + long(o * run), v.begin() + long((o + 1) * run));
    }
  return y;
}

}  // namespace

TEST_CASE("cat") {
  check_op({.name = "cat of dimension 1",
            .inputs = {{.shape = {2, 3, 2, 2}}, {.shape = {2, 1, 2, 2}}, {.shape = {2, 4, 2, 2}}},
            .run = [](auto& in) { return cat(in, 1); },
            .reference = [](auto& in) { return joined(in, 2); }});
  check_op({.name = "cat of the last dimension",
            .inputs = {{.shape = {5, 3}}, {.shape = {5, 7}}},
            .run = [](auto& in) { return cat(in, -1); },
            .reference = [](auto& in) { return joined(in, 5); }});
  check_op({.name = "cat of five, one of no rows and one of no elements at all",
            .inputs = {{.shape = {2, 3}}, {.shape = {0, 3}}, {.shape = {1, 3}}, {.shape = {0}}, {.shape = {3, 3}}},
            .run = [](auto& in) { return cat(in, 0); },
            .reference = [](auto& in) { return joined(in, 1); }});
  check_op({.name = "cat of a tensor with itself",
            .inputs = {{.shape = {2, 3}}},
            .run =
                [](auto& in) {
                  return cat({in[0], in[0]}, 1);
                },
            .reference =
                [](auto& in) {
                  return joined({in[0], in[0]}, 2);
                }});
}

TEST_CASE("stack") {
  check_op({.name = "stack in front",
            .inputs = {{.shape = {3, 4}}, {.shape = {3, 4}}, {.shape = {3, 4}}},
            .run = [](auto& in) { return stack(in); },
            .reference = [](auto& in) { return joined(in, 1); }});
  check_op({.name = "stack at the end",
            .inputs = {{.shape = {3, 4}}, {.shape = {3, 4}}},
            .run = [](auto& in) { return stack(in, -1); },
            .reference = [](auto& in) { return joined(in, 12); }});
  check_op({.name = "stack of scalars", .inputs = {{}, {}}, .run = [](auto& in) { return stack(in); }});
  CHECK(stack({zeros({2, 3}), zeros({2, 3})}, 1).shape() == Dims{2, 2, 3});
  CHECK(stack({zeros({0, 3})}, 2).shape() == Dims{0, 3, 1});
}

TEST_CASE("cat keeps channels-last where all are, and promotes dtypes") {
  Tensor a = zeros({2, 3, 4, 5}, {.layout = Layout::channels_last});
  Tensor b = zeros({2, 1, 4, 5}, {.layout = Layout::channels_last}), c = zeros({2, 3, 4, 5});
  CHECK(cat({a, b, a}, 1).layout() == Layout::channels_last);
  CHECK(cat({a, c}, 1).layout() == Layout::row_major);
  CHECK(cat({tensor({1.5f}), tensor({int64_t(2)})}).to_vector() == std::vector<float>{1.5f, 2});
  CHECK(cat({tensor({int64_t(1)}), tensor({int64_t(2)})}).dtype() == Dtype::i64);
  Tensor half = ones({2}, {.dtype = Dtype::bf16, .requires_grad = true}), whole = ones({1}, {.requires_grad = true});
  cat({half, whole}).backward(tensor({1.f, 2.f, 3.f}));
  CHECK(half.grad().dtype() == Dtype::bf16);
  CHECK(half.grad().to_vector() == std::vector<float>{1, 2});
  CHECK(whole.grad().to_vector() == std::vector<float>{3});
}

TEST_CASE("cat and stack name what does not fit") {
  CHECK_THROWS_WITH_AS(cat({}), "[cat] takes at least one tensor", ShapeError);
  CHECK_THROWS_WITH_AS(cat({zeros({2, 3}), zeros({2, 4})}), "[cat] [2,3] and [2,4] differ in another dimension than 0",
                       ShapeError);
  CHECK_THROWS_AS(cat({zeros({2, 3}), zeros({2, 3, 1})}), ShapeError);
  CHECK_THROWS_AS(cat({zeros({2}), zeros({2})}, 1), ShapeError);
  CHECK_THROWS_WITH_AS(cat({zeros({})}), "[cat] takes no scalars; stack() joins them", ShapeError);
  CHECK_THROWS_WITH_AS(cat({zeros({2}), Tensor()}), "[cat] tensor 1 is undefined", Error);
  CHECK_THROWS_WITH_AS(stack({zeros({2}), zeros({3})}), "[stack] [2] and [3] differ", ShapeError);
  CHECK_THROWS_AS(stack({zeros({2})}, 2), ShapeError);
  set_cpu_devices(2);
  CHECK_THROWS_AS(cat({zeros({2}), zeros({2}, {.device = cpu(1)})}), DeviceError);
}
