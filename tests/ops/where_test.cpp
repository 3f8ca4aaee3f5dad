#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/ops/where.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("where", [](GoldenCall& c) { return where(c.in[0], c.in[1], c.in[2]); });

namespace {

// Element `flat` of a result of shape `to` finds its operand's element here.
size_t broadcast_index(int64_t flat, const Dims& to, const Dims& of) {
  int64_t at = 0, stride = 1;
  for (int d = to.size(), k = of.size(); d--;) {
    const int64_t i = flat % to[d];
    flat /= to[d];
    if (--k < 0) continue;
    at += (of[k] == 1 ? 0 : i) * stride;
    stride *= of[k];
  }
  return size_t(at);
}

}  // namespace

TEST_CASE("where") {
  struct Case {
    Dims condition, a, b;
  };
  const Case cases[] = {{{3, 4}, {3, 4}, {4}},
                        {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
                        {{2, 3, 4, 5}, {}, {2, 3, 4, 5}},
                        {{2, 1, 4, 5}, {2, 3, 4, 5}, {3, 1, 1}},
                        {{}, {2, 3}, {2, 3}},
                        {{1}, {3, 1}, {1, 4}},
                        {{}, {}, {}},
                        {{0, 3}, {3}, {1, 3}}};
  for (auto& c : cases) {
    const Dims to = broadcast_shapes("where", c.condition, broadcast_shapes("where", c.a, c.b));
    check_op({.name = message("where of ", c.condition, ", ", c.a, " and ", c.b),
              .inputs = {{.shape = c.condition, .low = 0, .high = 2, .dtype = Dtype::boolean},
                         {.shape = c.a},
                         {.shape = c.b}},
              .run = [](auto& in) { return where(in[0], in[1], in[2]); },
              .reference =
                  [&](auto& in) {
                    std::vector<double> y;
                    for (int64_t i = 0; i < to.numel(); ++i)
                      y.push_back(in[0][broadcast_index(i, to, c.condition)] ? in[1][broadcast_index(i, to, c.a)]
                                                                             : in[2][broadcast_index(i, to, c.b)]);
                    return y;
                  }});
  }
}

TEST_CASE("where takes numbers, keeps what is not chosen out of the gradient, and moves any dtype") {
  Tensor c = tensor({true, false}), x = tensor({1.f, float(NAN)}, {.requires_grad = true});
  CHECK(where(c, x, 5).to_vector() == std::vector<float>{1, 5});
  CHECK(where(c, 0.5, tensor({2.f, 3.f})).to_vector() == std::vector<float>{0.5, 3});
  where(c, x, 0).backward(tensor({7.f, float(NAN)}));
  CHECK(x.grad().to_vector() == std::vector<float>{7, 0});
  CHECK(where(c, tensor({int64_t(1), int64_t(2)}), 9).dtype() == Dtype::i64);
  CHECK(where(c, tensor({int64_t(1), int64_t(2)}), 0.5).dtype() == Dtype::f32);
  CHECK(where(c, tensor({1.0, 2.0}), tensor({3.f, 4.f})).dtype() == Dtype::f64);
  CHECK(where(c, tensor({uint8_t(1), uint8_t(2)}), tensor({uint8_t(3), uint8_t(4)})).to_vector<uint8_t>() ==
        std::vector<uint8_t>{1, 4});
  Tensor half = tensor({bf16(1.f), bf16(2.f)}, {.requires_grad = true});
  where(c, half, tensor({3.f, 4.f})).backward(tensor({1.f, 1.f}));
  CHECK(half.grad().dtype() == Dtype::bf16);
  CHECK(half.grad().to_vector() == std::vector<float>{1, 0});
}

TEST_CASE("where names what does not fit") {
  Tensor c = tensor({true, false});
  CHECK_THROWS_WITH_AS(where(zeros({2}), zeros({2}), zeros({2})), "[where] the condition is bool, got f32", DtypeError);
  CHECK_THROWS_AS(where(c, zeros({2}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(where(c, zeros({3}), zeros({3})), ShapeError);
  set_cpu_devices(2);
  CHECK_THROWS_AS(where(c, zeros({2}), zeros({2}, {.device = cpu(1)})), DeviceError);
}
