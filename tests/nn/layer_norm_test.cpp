#include "tests/nn/support.h"

#include <tandem/nn/init.h>
#include <tandem/nn/layer_norm.h>
#include <tandem/ops/layer_norm.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("LayerNorm is layer_norm of its weights") {
  Tensor x = random_tensor({2, 3, 4}, {});
  nn::LayerNorm last{4}, two{{3, 4}, {.eps = 1e-2}}, no_bias{4, {.bias = false}},
      bare{4, {.elementwise_affine = false}};
  for (auto* m : {&last, &no_bias}) nn::init::uniform_(m->weight);
  CHECK(same_bits(last(x), layer_norm(x, {4}, last.weight, last.bias)));
  CHECK(same_bits(two(x), layer_norm(x, {3, 4}, two.weight, two.bias, 1e-2)));
  CHECK(same_bits(no_bias(x), layer_norm(x, {4}, no_bias.weight)));
  CHECK(same_bits(bare(x), layer_norm(x, {4})));
  CHECK(last.state_dict().size() == 2);
  CHECK(no_bias.state_dict().size() == 1);
  CHECK(bare.state_dict().empty());
  CHECK(two.weight.to_vector() == std::vector<float>(12, 1));
  CHECK(two.bias.to_vector() == std::vector<float>(12, 0));
  CHECK(two.extra_repr() == "(3, 4), eps=0.01, elementwise_affine=True");
  CHECK(last.extra_repr() == "(4,), eps=1e-05, elementwise_affine=True");
}
