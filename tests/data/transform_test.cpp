#include "tests/support/op_case.h"

#include <tandem/core/copy.h>
#include <tandem/data/cutout.h>
#include <tandem/data/lambda.h>
#include <tandem/data/normalize.h>
#include <tandem/data/random_crop.h>
#include <tandem/data/random_horizontal_flip.h>
#include <tandem/data/to_tensor.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace {

Tensor random_bytes(const Dims& shape) {
  Tensor t = empty(shape, {.dtype = Dtype::u8});
  Generator g(test_seed());
  for (uint8_t& v : t.span<uint8_t>()) v = uint8_t(g.random());
  return t;
}

const Normalize kNormalize({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616});

// Does nothing, but stands between two steps so that they can't share a pass.
Transform apart() {
  return Lambda([](const Tensor& x, const DrawKey&) { return x; });
}

}  // namespace

TEST_CASE("a chain of the usual steps is one pass, with the same results as step by step") {
  CAPTURE(test_seed());
  const Tensor x = random_bytes({6, 3, 8, 8});
  const std::vector<int64_t> samples{5, 9, 1, 0, 4, 77};
  const DrawKey key{3, 2, samples};
  const RandomCrop crop(8, {.padding = 2});
  const RandomHorizontalFlip flip;
  const Cutout cutout(3);
  struct {
    Transform fused;
    int64_t passes;
  } chains[] = {
      {Compose({crop, flip, ToTensor(), kNormalize}), 1},
      {Compose({crop, flip, ToTensor(), kNormalize, cutout}), 1},
      {Compose({ToTensor(), flip, kNormalize}), 1},
      {Compose({crop, flip}), 1},
      {Compose({flip, crop, ToTensor()}), 2},                // mirrored first, then padded
      {Compose({crop, cutout, ToTensor(), kNormalize}), 2},  // bytes are cut out, then scaled
      {Compose({ToTensor(), kNormalize, crop}), 2},          // padding is of normalised values
      {Compose({crop, crop, flip, flip}), 3},
      {Compose({Compose({crop, Compose({flip})}), ToTensor()}), 1},
  };
  // Step by step: each alone, told its number among the random steps.
  const std::vector<std::vector<Transform>> steps = {{crop, flip, ToTensor(), kNormalize},
                                                     {crop, flip, ToTensor(), kNormalize, cutout},
                                                     {ToTensor(), flip, kNormalize},
                                                     {crop, flip},
                                                     {flip, crop, ToTensor()},
                                                     {crop, cutout, ToTensor(), kNormalize},
                                                     {ToTensor(), kNormalize, crop},
                                                     {crop, crop, flip, flip},
                                                     {crop, flip, ToTensor()}};
  for (size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(to_string(chains[i].fused));
    CHECK(chains[i].fused.passes() == chains[i].passes);
    Tensor y = x;
    int draw = 0;
    for (const Transform& t : steps[i]) {
      // A step's number in a chain is that of the random steps before it.
      std::vector<Transform> padded;
      for (int k = 0; k < draw; ++k) padded.push_back(apart());
      padded.push_back(t);
      y = Compose(padded)(y, key);
      draw += t.random();
    }
    Tensor all = chains[i].fused(x, key);
    CHECK(same_bits(all, y));
    const std::vector<int64_t> rows{3, 3, 0, 1, 5, 2};
    Tensor some = chains[i].fused.gather(x, rows, key);
    Tensor gathered = empty(x.shape(), {.dtype = Dtype::u8});
    for (size_t k = 0; k < rows.size(); ++k)
      std::copy_n(x.data<uint8_t>() + rows[k] * 192, 192, gathered.data<uint8_t>() + k * 192);
    CHECK(same_bits(some, chains[i].fused(gathered, key)));
  }
}

TEST_CASE("transforms of one image, without samples, and of none") {
  const Tensor x = random_bytes({2, 3, 4, 4});
  const Transform t = Compose({RandomCrop(4, {.padding = 1}), ToTensor()});
  Tensor image = x.alias({3, 4, 4}, {16, 4, 1}, 0);
  Tensor y = t(image, {1, 0});
  CHECK(y.shape() == Dims{3, 4, 4});
  CHECK(y.to_vector() == t(x.alias({1, 3, 4, 4}, {48, 16, 4, 1}, 0), {1, 0}).to_vector());
  const std::vector<int64_t> counting{0, 1};
  CHECK(same_bits(t(x, {7, 1}), t(x, {7, 1, counting})));
  const Transform nothing;
  CHECK_FALSE(bool(nothing));
  CHECK(nothing(x).is_same(x));
  CHECK(nothing.gather(x, std::vector<int64_t>{1}, {}).to_vector<int64_t>()[0] == x.to_vector<int64_t>()[48]);
  CHECK_THROWS_AS(t(arange(0, 3)), ShapeError);
}

TEST_CASE("ToTensor divides bytes by 255 and leaves floats, Normalize takes one value for all channels") {
  Tensor bytes = zeros({1, 2, 1, 1}, {.dtype = Dtype::u8});
  bytes.data<uint8_t>()[1] = 255;
  CHECK(ToTensor().name() == "ToTensor()");
  Tensor y = Transform(ToTensor())(bytes);
  CHECK(y.dtype() == Dtype::f32);
  CHECK(y.to_vector() == std::vector<float>{0, 1});
  CHECK(same_bits(Transform(ToTensor())(y), y));
  CHECK(Transform(Normalize({0.5}, {0.5}))(y).to_vector() == std::vector<float>{-1, 1});
  CHECK_THROWS_AS(Transform(Normalize({0.5}, {0.5}))(bytes), DtypeError);
}

TEST_CASE("a flip with probability 1 always mirrors, with 0 never") {
  Tensor x = from_vector<float>({1, 2, 3}, {1, 1, 1, 3});
  CHECK(Transform(RandomHorizontalFlip(1))(x).to_vector() == std::vector<float>{3, 2, 1});
  CHECK(Transform(RandomHorizontalFlip(0))(x).to_vector() == std::vector<float>{1, 2, 3});
}

TEST_CASE("a user's function and a user's step take part in a chain") {
  struct Negate : TransformStep {
    std::string name() const override { return "Negate()"; }
    Tensor apply(const Tensor& x, const DrawKey&, int) const override {
      Tensor y = empty_like(x);
      for (int64_t i = 0; i < x.numel(); ++i) y.ptr<float>()[i] = -x.ptr<float>()[i];
      return y;
    }
  };
  std::vector<int64_t> seen;
  Transform t = Compose({ToTensor(), Negate(), Lambda([&](const Tensor& x, const DrawKey& key) {
                           seen.assign(key.samples.begin(), key.samples.end());
                           return x;
                         })});
  CHECK(to_string(t) == "Compose(ToTensor(), Negate(), Lambda())");
  Tensor bytes = full({2, 1, 1, 1}, 255, {.dtype = Dtype::u8});
  CHECK(t(bytes, {0, 0, std::vector<int64_t>{4, 6}}).to_vector() == std::vector<float>{-1, -1});
  CHECK(seen == std::vector<int64_t>{4, 6});
  struct Useless : TransformStep {
    std::string name() const override { return "Useless()"; }
  };
  CHECK_THROWS_AS(Transform(Useless{})(bytes), Error);
}

TEST_CASE("transforms print as they are written and refuse what can't be") {
  CHECK(to_string(Compose({RandomCrop(32, {.padding = 4}), RandomHorizontalFlip(), ToTensor(), Normalize({0.5}, {0.25}),
                           Cutout(8)})) ==
        "Compose(RandomCrop(32, padding=4), RandomHorizontalFlip(p=0.5), ToTensor(), Normalize((0.5), (0.25)), "
        "Cutout(8))");
  CHECK(to_string(Transform(RandomCrop(3, 4))) == "RandomCrop(3, 4)");
  CHECK_THROWS_AS(RandomCrop(0), Error);
  CHECK_THROWS_AS(RandomCrop(4, {.padding = -1}), Error);
  CHECK_THROWS_AS(RandomHorizontalFlip(1.5), Error);
  CHECK_THROWS_AS(Normalize({0.5}, {0.0}), Error);
  CHECK_THROWS_AS(Normalize({0.5, 0.5}, {0.5}), Error);
  CHECK_THROWS_AS(Cutout(0), Error);
}
