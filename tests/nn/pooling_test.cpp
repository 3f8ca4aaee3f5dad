#include "tests/nn/support.h"

#include <tandem/nn/pooling.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::test;

TEST_CASE("pooling layers call the functions of their names") {
  Tensor x = random_tensor({2, 3, 7, 6}, {});
  nn::MaxPool2d max{3, {.stride = 2, .padding = 1, .ceil_mode = true}}, by_kernel{{2, 3}};
  nn::AvgPool2d avg{2, {.padding = 1, .count_include_pad = false}};
  nn::AdaptiveAvgPool2d whole{1};
  CHECK(same_bits(max(x), max_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true})));
  CHECK(by_kernel(x).shape() == Dims{2, 3, 3, 2});
  CHECK(same_bits(avg(x), avg_pool2d(x, 2, {.padding = 1, .count_include_pad = false})));
  CHECK(same_bits(whole(x), adaptive_avg_pool2d(x, 1)));
  CHECK(max.extra_repr() == "kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1), ceil_mode=True");
  CHECK(by_kernel.extra_repr() ==
        "kernel_size=(2, 3), stride=(2, 3), padding=(0, 0), dilation=(1, 1), ceil_mode=False");
  CHECK(avg.extra_repr() == "kernel_size=(2, 2), stride=(2, 2), padding=(1, 1)");
  CHECK(whole.extra_repr() == "output_size=(1, 1)");
}
