#include "tests/support/op_case.h"

#include <tandem/core/generator.h>
#include <tandem/ops/dropout.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

// Dropout by its definition, for rows of `width` elements.
std::vector<double> dropped(const std::vector<double>& x, int64_t width, const DropoutKey& key, double p) {
  auto of_call =
      philox(key.seed, {uint32_t(key.step), uint32_t(key.step >> 32), uint32_t(key.call), uint32_t(key.call >> 32)});
  const uint64_t k = uint64_t(of_call[1]) << 32 | of_call[0];
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto row = uint64_t(int64_t(i) / width + key.row_offset), e = uint64_t(int64_t(i) % width);
    auto u = philox(k, {uint32_t(e / 4), uint32_t(e / 4 >> 32), uint32_t(row), uint32_t(row >> 32)})[e % 4];
    y.push_back(double(u) * 0x1p-32 >= p ? x[i] / (1 - p) : 0);
  }
  return y;
}

std::vector<float> mask_of(const RandomStep& random, int64_t rows = 4, int64_t width = 50, double p = 0.5) {
  context().random = random;
  auto y = dropout(ones({rows, width}), p).to_vector();
  context().random = {};
  return y;
}

}  // namespace

TEST_CASE("dropout") {
  const DropoutKey key{.seed = 7, .step = (1ull << 33) + 5, .call = 2, .row_offset = 100};
  for (const Dims& shape : {Dims{5, 3, 4, 7}, Dims{2, 9}, Dims{6}, Dims{}, Dims{0, 3}})
    for (double p : {0.3, 0.5})
      check_op({.name = message("dropout of ", shape, " with p = ", p),
                .inputs = {{.shape = shape}},
                .run =
                    [&](auto& in) {
                      context().random = {key.seed, key.step, key.call, key.row_offset};
                      return dropout(in[0], p);
                    },
                .reference =
                    [&](auto& in) {
                      return dropped(in[0], shape.empty() ? 1 : shape.numel() / std::max<int64_t>(1, shape[0]), key, p);
                    }});
  context().random = {};
}

TEST_CASE("the share of zeros is p, and what is kept is scaled") {
  for (double p : {0.1, 0.25, 0.5, 0.9}) {
    auto y = mask_of({.seed = 1}, 200, 1000, p);
    double zeros = 0;
    const auto scale = float(1 / (1 - p));
    for (float v : y) {
      REQUIRE((v == 0 || v == scale));
      zeros += v == 0;
    }
    // Five deviations of a binomial count.
    CHECK(std::abs(zeros / 200'000 - p) < 5 * std::sqrt(p * (1 - p) / 200'000));
  }
}

TEST_CASE("rows draw alike wherever the batch is cut") {
  auto whole = mask_of({.seed = 3}, 8, 33);
  auto first = mask_of({.seed = 3}, 3, 33), rest = mask_of({.seed = 3, .row_offset = 3}, 5, 33);
  first.insert(first.end(), rest.begin(), rest.end());
  CHECK(first == whole);
}

TEST_CASE("seed, step and call each make other draws; a call counts up") {
  auto y = mask_of({.seed = 3, .step = 1, .call = 1});
  CHECK(mask_of({.seed = 3, .step = 1, .call = 1}) == y);
  CHECK(mask_of({.seed = 4, .step = 1, .call = 1}) != y);
  CHECK(mask_of({.seed = 3, .step = 2, .call = 1}) != y);
  CHECK(mask_of({.seed = 3, .step = 1, .call = 2}) != y);
  manual_seed(3);
  dropout(ones({2}));
  CHECK(context().random.call == 1);
  dropout(ones({2}), 0.5, false);
  dropout(ones({2}), 0);
  CHECK(context().random.call == 1);
  manual_seed(3);
  CHECK(context().random.call == 0);
  context().random = {};
}

TEST_CASE("dropout of nothing, of all, and outside training") {
  Tensor x = random_tensor({3, 4}, {});
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK(dropout(x, 0).is_same(x));
  x.set_requires_grad();
  Tensor y = dropout(x, 1);
  CHECK(y.to_vector() == std::vector<float>(12, 0.f));
  y.backward(ones({3, 4}));
  CHECK(x.grad().to_vector() == std::vector<float>(12, 0.f));
  CHECK(dropout(tensor({1.f, 2.f}), 1).to_vector() == std::vector<float>{0, 0});
  CHECK_THROWS_WITH_AS(dropout(x, 1.5), "[dropout] the probability is from 0 to 1, got 1.5", Error);
  CHECK_THROWS_AS(dropout(x, -0.1), Error);
  CHECK_THROWS_AS(dropout(x, NAN), Error);
  CHECK_THROWS_AS(dropout(arange(0, 3)), DtypeError);
  context().random = {};
}

TEST_CASE("dropout writes over a temporary and over nothing else") {
  Tensor x = random_tensor({100}, {});
  auto before = x.to_vector();
  dropout(x);
  CHECK(x.to_vector() == before);
  void* memory = x.raw();
  CHECK(dropout(std::move(x)).raw() == memory);
  context().random = {};
}
