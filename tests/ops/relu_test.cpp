#include "tests/support/golden.h"
#include "tests/support/op_case.h"

#include <tandem/core/kernel.h>
#include <tandem/ops/relu.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

TANDEM_GOLDEN("relu", [](GoldenCall& c) { return relu(c.in[0]); });

TEST_CASE("relu") {
  check_op({.name = "relu",
            .inputs = {{.shape = {3, 5, 4, 7}, .gap = 0.01}},
            .run = [](auto& in) { return relu(in[0]); },
            .reference =
                [](auto& in) {
                  auto y = in[0];
                  for (double& v : y) v = v > 0 ? v : 0;
                  return y;
                }});
  check_op({.name = "relu of nothing", .inputs = {{.shape = {0, 3}}}, .run = [](auto& in) { return relu(in[0]); }});
}

TEST_CASE("relu keeps NaN, and its gradient at 0 is 0") {
  Tensor x = tensor({-1.f, 0.f, 2.f, NAN}, {.requires_grad = true});
  Tensor y = relu(x);
  CHECK(std::isnan(y.to_vector()[3]));
  y.backward(ones({4}));
  CHECK(x.grad().to_vector()[1] == 0);
  CHECK(x.grad().to_vector()[2] == 1);
  CHECK(x.grad().to_vector()[3] == 1);  // as PyTorch's threshold_backward
}

TEST_CASE("relu writes over a temporary and over nothing else") {
  Tensor a = random_tensor({100}, {});
  auto before = a.to_vector();
  relu(a);
  CHECK(a.to_vector() == before);
  Tensor t = a.detach().alias({100}, {1}, 0);
  relu(std::move(t));  // a still holds the storage
  CHECK(a.to_vector() == before);
  Tensor b = zeros({100});
  void* memory = b.raw();
  CHECK(relu(std::move(b)).raw() == memory);
}

TEST_CASE("relu takes floating tensors") { CHECK_THROWS_AS(relu(arange(0, 3)), DtypeError); }
