#include "tests/nn/initial_weights.h"
#include "tests/nn/support.h"

#include <tandem/core/generator.h>
#include <tandem/nn/init.h>
#include <tandem/ops/random.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;
namespace init = tandem::nn::init;

namespace {
double largest(const Tensor& t) {
  double m = 0;
  for (double v : t.to_vector<double>()) m = std::max(m, std::abs(v));
  return m;
}
double deviation(const Tensor& t) {
  double s = 0;
  for (double v : t.to_vector<double>()) s += v * v;
  return std::sqrt(s / double(t.numel()));
}
}  // namespace

TEST_CASE("gains are torch.nn.init.calculate_gain's") {
  using N = init::Nonlinearity;
  CHECK(init::calculate_gain(N::linear) == 1);
  CHECK(init::calculate_gain(N::sigmoid) == 1);
  CHECK(init::calculate_gain(N::tanh) == 5. / 3);
  CHECK(init::calculate_gain(N::relu) == std::sqrt(2.));
  CHECK(init::calculate_gain(N::leaky_relu) == std::sqrt(2 / (1 + 0.01 * 0.01)));
  CHECK(init::calculate_gain(N::leaky_relu, 0.5) == std::sqrt(2 / 1.25));
  CHECK(init::calculate_gain(N::selu) == 0.75);
}

TEST_CASE("fans count what lies behind the first two sizes") {
  auto fans = init::calculate_fan_in_and_fan_out(zeros({8, 3, 5, 2}));
  CHECK(fans.in == 30);
  CHECK(fans.out == 80);
  CHECK_THROWS_AS(init::calculate_fan_in_and_fan_out(zeros({3})), ShapeError);
}

TEST_CASE("each rule has its bound or deviation") {
  manual_seed(3);
  Tensor w = zeros({200, 300}, {.requires_grad = true});
  const double third = std::sqrt(3.);
  CHECK(largest(init::uniform_(w, -0.5, 0.25)) <= 0.5);
  CHECK(largest(w) > 0.49);
  CHECK(deviation(init::normal_(w, 0, 2)) == doctest::Approx(2).epsilon(0.02));
  CHECK(largest(init::xavier_uniform_(w, 2)) == doctest::Approx(2 * std::sqrt(6. / 500)).epsilon(0.001));
  CHECK(deviation(init::xavier_normal_(w)) == doctest::Approx(std::sqrt(2. / 500)).epsilon(0.02));
  CHECK(largest(init::kaiming_uniform_(w)) == doctest::Approx(third * std::sqrt(2. / 300)).epsilon(0.001));
  CHECK(largest(init::kaiming_uniform_(w, {.mode = init::FanMode::fan_out})) ==
        doctest::Approx(third * std::sqrt(2. / 200)).epsilon(0.001));
  CHECK(deviation(init::kaiming_normal_(w, {.nonlinearity = init::Nonlinearity::linear})) ==
        doctest::Approx(1 / std::sqrt(300.)).epsilon(0.02));
  CHECK(init::constant_(w, 0.125).to_vector() == std::vector<float>(60000, 0.125f));
  CHECK(largest(init::zeros_(w)) == 0);
  CHECK(init::ones_(w).is_same(w));
  CHECK(w.requires_grad());
  CHECK(init::kaiming_uniform_(zeros({0, 3})).numel() == 0);
}

TEST_CASE("the draws are those of PyTorch's layers, in whatever layout the weight lies") {
  for (auto& want : kInitialWeights) {
    INFO("seed ", want.seed);
    manual_seed(want.seed);
    CHECK(init::kaiming_uniform_(empty({2, 5}), {.a = std::sqrt(5.)}).to_vector() == want.linear_weight);
    CHECK(init::uniform_(empty({2}), -1 / std::sqrt(5.), 1 / std::sqrt(5.)).to_vector() == want.linear_bias);
    for (Layout layout : {Layout::row_major, Layout::channels_last}) {
      manual_seed(want.seed);
      Tensor w = empty({4, 3, 3, 3}, {.layout = layout});
      CHECK(init::kaiming_uniform_(w, {.a = std::sqrt(5.)}).to_vector() == want.conv_weight);
    }
  }
}
