#include "tests/support/guard_pool.h"
#include "tests/support/op_case.h"

#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/augment.h>

#include <doctest/doctest.h>

#include <bit>

using namespace tandem;
using namespace tandem::test;

namespace {

Tensor random_bytes(const Dims& shape) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.numel()));
  Generator g(test_seed());
  for (uint8_t& v : bytes) v = uint8_t(g.random());
  return from_vector(bytes, shape);
}

// The definition, pixel by pixel, in double.
std::vector<double> reference(const Tensor& images, const std::vector<int64_t>& rows, uint64_t seed, int64_t epoch,
                              const std::vector<int64_t>& samples, const AugmentOptions& o) {
  const auto x = images.to_vector<double>();
  const int64_t c = images.size(1), h = images.size(2), w = images.size(3);
  const int64_t oh = o.crop ? o.crop->height : h, ow = o.crop ? o.crop->width : w;
  auto draw = [](uint32_t bits, int64_t n) { return int64_t(double(bits) / 4294967296.0 * double(n)); };
  std::vector<double> y;
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t top = 0, left = 0, hole_top = oh, hole_left = ow, hole = 0, pad = 0;
    bool flip = false;
    if (o.crop) {
      pad = o.crop->padding;
      auto d = augment_draws(seed, epoch, samples[i], o.crop->draw);
      top = draw(d[0], h + 2 * pad - oh + 1);
      left = draw(d[1], w + 2 * pad - ow + 1);
    }
    if (o.flip) flip = augment_draws(seed, epoch, samples[i], o.flip->draw)[0] / 4294967296.0 < o.flip->p;
    if (o.cutout) {
      hole = o.cutout->length;
      auto d = augment_draws(seed, epoch, samples[i], o.cutout->draw);
      hole_top = draw(d[0], oh) - hole / 2;
      hole_left = draw(d[1], ow) - hole / 2;
    }
    // Pixel p of a padded row of n pixels: which of the image's, or -1.
    auto source = [&](int64_t p, int64_t n) {
      int64_t s = p - pad;
      if (s >= 0 && s < n) return s;
      if (o.crop->mode == PaddingMode::edge) return s < 0 ? int64_t(0) : n - 1;
      if (o.crop->mode == PaddingMode::reflect) return s < 0 ? -s : 2 * n - 2 - s;
      return int64_t(-1);
    };
    for (int64_t k = 0; k < c; ++k)
      for (int64_t yy = 0; yy < oh; ++yy)
        for (int64_t xx = 0; xx < ow; ++xx) {
          const int64_t sy = source(top + yy, h), sx = source(left + (flip ? ow - 1 - xx : xx), w);
          double v = sy < 0 || sx < 0 ? o.crop->fill : x[size_t(((rows[i] * c + k) * h + sy) * w + sx)];
          if (o.to_float && images.dtype() == Dtype::u8) v = float(v) / 255.f;
          if (!o.mean.empty()) {
            auto at = [&](const std::vector<double>& list) { return float(list[list.size() == 1 ? 0 : size_t(k)]); };
            v = (float(v) - at(o.mean)) / at(o.std);
          }
          const bool inside = yy >= hole_top && yy < hole_top + hole && xx >= hole_left && xx < hole_left + hole;
          y.push_back(inside ? 0 : v);
        }
  }
  return y;
}

void check_augment(const Tensor& images, const AugmentOptions& o) {
  CAPTURE(test_seed());
  CAPTURE(images.shape().vec().size());
  const std::vector<int64_t> rows{2, 0, 1, 2, 2}, samples{900, 7, int64_t(1) << 40, 3, 4};
  const uint64_t seed = test_seed() + 1;
  const AugmentKey key{seed, 5, from_vector(samples, {5})};
  const Tensor at = from_vector(rows, {5});
  const auto want = reference(images, rows, seed, 5, samples, o);
  GuardPool guard;
  for (Layout layout : {Layout::row_major, Layout::channels_last})
    for (int threads : {1, 2}) {
      CAPTURE(to_string(layout));
      CAPTURE(threads);
      const int before = num_threads();
      set_num_threads(threads);
      PoolGuard use(guard);
      Tensor y = augment(as_layout(images, layout), at, key, o);
      set_num_threads(before);
      CHECK(y.is_contiguous(Layout::channels_last));
      CHECK(y.to_vector<double>() == want);
    }
  CHECK(guard.violations() == 0);
}

const AugmentOptions::Flip kFlip{.p = 0.5, .draw = 1};

}  // namespace

TEST_CASE("augment: crop, flip, scale, normalise and cut out, alone and together") {
  for (int64_t c : {1, 3, 4}) {
    CAPTURE(c);
    const Tensor x = random_bytes({3, c, 6, 9});
    const std::vector<double> mean(c == 4 ? 1 : size_t(c), 0.4914), std(c == 4 ? 1 : size_t(c), 0.247);
    check_augment(x, {});
    check_augment(x, {.flip = kFlip});
    check_augment(x, {.to_float = true});
    check_augment(x, {.to_float = true, .mean = mean, .std = std});
    check_augment(x, {.cutout = AugmentOptions::Cutout{.length = 3, .draw = 2}});
    check_augment(x, {.cutout = AugmentOptions::Cutout{.length = 40, .draw = 2}});
    for (PaddingMode mode : {PaddingMode::constant, PaddingMode::reflect, PaddingMode::edge})
      for (int64_t padding : {0, 1, 4}) {
        CAPTURE(int(mode));
        CAPTURE(padding);
        const AugmentOptions::Crop crop{5, 8, padding, mode, 17, 0};
        check_augment(x, {.crop = crop});
        check_augment(x, {.crop = crop,
                          .flip = kFlip,
                          .to_float = true,
                          .mean = mean,
                          .std = std,
                          .cutout = AugmentOptions::Cutout{.length = 2, .draw = 2}});
      }
  }
}

TEST_CASE("augment: floating images keep their type, and padding can be wider than the image") {
  const Tensor x = random_tensor({3, 3, 4, 4}, {});
  check_augment(
      x,
      {.crop = AugmentOptions::Crop{12, 3, 6, PaddingMode::edge, 0, 0}, .flip = kFlip, .mean = {0.5}, .std = {0.25}});
  check_augment(x, {.to_float = true});
  Tensor half = copy_of(x, {.dtype = Dtype::f16});
  Tensor y = augment(half, {}, {}, {.flip = AugmentOptions::Flip{.p = 1}});
  CHECK(y.dtype() == Dtype::f16);
  CHECK(y.to_vector()[0] == half.to_vector()[3]);
}

TEST_CASE("augment: scaled and normalised bytes have PyTorch's bits") {
  Tensor x = arange(0, 3 * 256).to(Dtype::u8).reshape({1, 3, 16, 16});  // all bytes in each channel
  Tensor y = augment(x, {}, {}, {.to_float = true, .mean = {0.4914, 0.4822, 0.4465}, .std = {0.2470, 0.2435, 0.2616}});
  const auto v = y.to_vector();
  // Bytes 0, 50, ..., 250 of each channel: (torch.tensor(b).float().div(255) - mean) / std
  const uint32_t want[3][6] = {{0xbffea713, 0xbf990a89, 0xbecdb7f4, 0x3ec8ba3b, 0x3f97cb19, 0x3ffd67a4},
                               {0xbffd7a10, 0xbf96679e, 0xbebd54b8, 0x3edef50d, 0x3f9ecfb4, 0x4002f112},
                               {0xbfda7891, 0xbf750f96, 0xbe54b825, 0x3f0ab384, 0x3fa54a88, 0x40029da7}};
  for (size_t k = 0; k < 3; ++k)
    for (size_t b = 0; b < 6; ++b) CHECK(std::bit_cast<uint32_t>(v[k * 256 + b * 50]) == want[k][b]);
}

TEST_CASE("augment: what is drawn depends on seed, epoch and sample alone, and covers its range") {
  const Tensor x = random_bytes({1, 3, 32, 32});
  const AugmentOptions o{.crop = AugmentOptions::Crop{32, 32, 4, PaddingMode::constant, 0, 0}, .flip = kFlip};
  auto one = [&](uint64_t seed, int64_t epoch, int64_t sample) {
    return augment(x, {}, {seed, epoch, tensor({sample})}, o).to_vector<int64_t>();
  };
  CHECK(one(1, 2, 3) == one(1, 2, 3));
  CHECK(one(1, 2, 3) != one(2, 2, 3));
  CHECK(one(1, 2, 3) != one(1, 3, 3));
  CHECK(one(1, 2, 3) != one(1, 2, 4));
  int seen[9] = {}, flips = 0;
  for (int64_t i = 0; i < 900; ++i) {
    ++seen[size_t(augment_draws(1, 0, i, 0)[0] * 0x1p-32 * 9)];
    flips += augment_draws(1, 0, i, 1)[0] < 0x80000000u;
  }
  for (int n : seen) {
    CHECK(n > 60);  // 100 expected
    CHECK(n < 140);
  }
  CHECK(flips > 400);
  CHECK(flips < 500);
}

TEST_CASE("augment: of nothing") {
  CHECK(augment(empty({0, 3, 4, 4}, {.dtype = Dtype::u8}), {}, {}, {.to_float = true}).shape() == Dims{0, 3, 4, 4});
  Tensor none = empty({0}, {.dtype = Dtype::i64});
  CHECK(augment(random_bytes({2, 3, 4, 4}), none, {0, 0, none}, {}).shape() == Dims{0, 3, 4, 4});
}

TEST_CASE("augment refuses what does not fit") {
  const Tensor x = random_bytes({2, 3, 4, 4});
  using Crop = AugmentOptions::Crop;
  CHECK_THROWS_WITH_AS(augment(x, {}, {}, {.crop = Crop{9, 4, 2}}),
                       "[augment] a crop of 9x4 from images of 4x4 padded by 2", ShapeError);
  CHECK_THROWS_AS(augment(x, {}, {}, {.crop = Crop{4, 4, 4, PaddingMode::reflect}}), ShapeError);
  CHECK_THROWS_AS(augment(x, {}, {}, {.to_float = true, .mean = {0, 0}, .std = {1, 1}}), ShapeError);
  CHECK_THROWS_AS(augment(x, {}, {}, {.to_float = true, .mean = {0}, .std = {}}), ShapeError);
  CHECK_THROWS_WITH_AS(augment(x, {}, {}, {.mean = {0}, .std = {1}}),
                       "[augment] bytes can't be normalised: ToTensor comes before Normalize", DtypeError);
  CHECK_THROWS_WITH_AS(augment(x, tensor<int64_t>({0, 2}), {}, {}).to_vector(), "[augment] row 2 of 2 images",
                       ShapeError);
  CHECK_THROWS_AS(augment(x, tensor({0.f}), {}, {}), DtypeError);
  CHECK_THROWS_AS(augment(x, {}, {0, 0, tensor<int64_t>({1})}, {}), ShapeError);
  CHECK_THROWS_AS(augment(arange(0, 4), {}, {}, {}), ShapeError);
  CHECK_THROWS_AS(augment(zeros({1, 1, 2, 2}, {.dtype = Dtype::i32}), {}, {}, {}), DtypeError);
}
