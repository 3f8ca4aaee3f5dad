#include "tests/nn/initial_weights.h"
#include "tests/nn/support.h"

#include <tandem/core/generator.h>
#include <tandem/nn/conv2d.h>
#include <tandem/ops/conv2d.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("Conv2d draws PyTorch's weights, into channels-last memory") {
  for (auto& want : kInitialWeights) {
    manual_seed(want.seed);
    nn::Conv2d conv{3, 4, {.kernel = 3}};
    CHECK(conv.weight.to_vector() == want.conv_weight);
    CHECK(conv.bias.to_vector() == want.conv_bias);
    CHECK(conv.weight.is_contiguous(Layout::channels_last));
  }
}

TEST_CASE("Conv2d is conv2d of its weights and options") {
  nn::Conv2d conv{
      4, 6, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2, .bias = false}};
  Tensor x = random_tensor({2, 4, 7, 8}, {});
  const Conv2dOptions same{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  CHECK(same_bits(conv(x), conv2d(x, conv.weight, {}, same)));
  CHECK(conv.state_dict().size() == 1);
  CHECK(conv.extra_repr() ==
        "4, 6, kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, bias=False");
  nn::Conv2d plain{3, 8, {.kernel = 3, .padding = 1, .dtype = Dtype::f64}};
  CHECK(plain(random_tensor({1, 3, 4, 4})).shape() == Dims{1, 8, 4, 4});
  CHECK(to_string(plain) == "Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))  # 224\n224 parameters");
}

TEST_CASE("Conv2d refuses sizes that make no sense") {
  CHECK(says(error_of([] { nn::Conv2d(3, 4, {.kernel = 3, .groups = 2}); }), "[Conv2d] 3 channels to 4 in 2 groups"));
  CHECK_THROWS_AS(nn::Conv2d(3, 4, {.kernel = 0}), ShapeError);
  CHECK_THROWS_AS(nn::Conv2d(0, 4, {.kernel = 1}), ShapeError);
}
