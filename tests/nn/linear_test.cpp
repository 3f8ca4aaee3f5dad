#include "tests/nn/initial_weights.h"
#include "tests/nn/support.h"

#include <tandem/core/generator.h>
#include <tandem/nn/linear.h>
#include <tandem/ops/linear.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("Linear draws PyTorch's weights") {
  for (auto& want : kInitialWeights) {
    manual_seed(want.seed);
    nn::Linear fc{5, 2};
    CHECK(fc.weight.to_vector() == want.linear_weight);
    CHECK(fc.bias.to_vector() == want.linear_bias);
  }
}

TEST_CASE("Linear is linear of its weights") {
  nn::Linear fc{5, 2}, plain{5, 2, {.bias = false}};
  Tensor x = random_tensor({3, 5}, {});
  CHECK(same_bits(fc(x), linear(x, fc.weight, fc.bias)));
  CHECK(same_bits(plain(x), linear(x, plain.weight)));
  CHECK(fc.parameters().size() == 2);
  CHECK(plain.parameters().size() == 1);
  CHECK(plain.state_dict().size() == 1);
  CHECK(fc.state_dict()[0].first == "weight");
  CHECK(to_string(fc) == "Linear(in_features=5, out_features=2, bias=True)  # 12\n12 parameters");
  fc(x).backward(ones({3, 2}));
  CHECK(fc.bias.grad().to_vector() == std::vector<float>{3, 3});
}

TEST_CASE("Linear in another dtype and without inputs") {
  nn::Linear wide{4, 3, {.dtype = Dtype::f64}};
  CHECK(wide.weight.dtype() == Dtype::f64);
  CHECK(wide(random_tensor({2, 4})).dtype() == Dtype::f64);
  nn::Linear none{0, 3};
  CHECK(none(zeros({2, 0})).to_vector() == std::vector<float>(6, 0));
  CHECK_THROWS_AS(nn::Linear(-1, 3), ShapeError);
}
