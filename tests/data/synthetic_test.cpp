#include <tandem/core/parallel_for.h>
#include <tandem/data/channel_stats.h>
#include <tandem/data/subset.h>
#include <tandem/data/synthetic.h>
#include <tandem/data/tensor_dataset.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tandem;
using namespace tandem::data;

namespace {

uint64_t hash(const Tensor& t) {
  uint64_t h = 14695981039346656037ull;  // FNV-1a
  for (uint8_t v : t.span<uint8_t>()) h = (h ^ v) * 1099511628211ull;
  return h;
}

}  // namespace

TEST_CASE("synthetic images are the same bytes everywhere, by seed and split") {
  const Synthetic a({.size = 50}), b({.size = 50}), other({.size = 50, .seed = 1}), test({.size = 50, .train = false});
  CHECK(a.images().shape() == Dims{50, 3, 32, 32});
  CHECK(hash(a.images()) == hash(b.images()));
  CHECK(hash(a.images()) == 8818027587440980442ull);
  CHECK(hash(a.images()) != hash(other.images()));
  CHECK(hash(a.images()) != hash(test.images()));
  // The first of more are those of fewer, and threads make no difference.
  const int before = num_threads();
  set_num_threads(2);
  const Synthetic more({.size = 100});
  set_num_threads(before);
  const size_t bytes = 50 * 3072;
  CHECK(std::equal(a.images().data<uint8_t>(), a.images().data<uint8_t>() + bytes, more.images().data<uint8_t>()));
}

TEST_CASE("the class of a synthetic image can be told from others of it, not from chance") {
  const Synthetic::Options o{.size = 400, .classes = 5, .channels = 1, .height = 12, .width = 16};
  const Synthetic train(o);
  Synthetic::Options held_out = o;
  held_out.train = false;
  const Synthetic test(held_out);
  const int64_t pixels = 12 * 16;
  std::vector<double> mean(size_t(5 * pixels)), count(5);
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t label = train.labels().data<int64_t>()[i];
    REQUIRE(label >= 0);
    REQUIRE(label < 5);
    ++count[size_t(label)];
    for (int64_t j = 0; j < pixels; ++j)
      mean[size_t(label * pixels + j)] += train.images().data<uint8_t>()[i * pixels + j];
  }
  for (double n : count) CHECK(n > 50);
  int right = 0;
  for (int64_t i = 0; i < 400; ++i) {
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t k = 0; k < 5; ++k) {
      double d = 0;
      for (int64_t j = 0; j < pixels; ++j)
        d += std::pow(test.images().data<uint8_t>()[i * pixels + j] - mean[size_t(k * pixels + j)] / count[size_t(k)],
                      2);
      if (d < least) {
        least = d;
        best = k;
      }
    }
    right += best == test.labels().data<int64_t>()[i];
  }
  CHECK(right > 360);
}

TEST_CASE("a synthetic set refuses sizes that can't be") {
  CHECK(Synthetic({.size = 0}).size() == 0);
  CHECK_THROWS_AS(Synthetic({.size = -1}), Error);
  CHECK_THROWS_AS(Synthetic({.classes = 0}), Error);
  CHECK_THROWS_AS(Synthetic({.noise = 256}), Error);
}

TEST_CASE("channel_stats are the mean and deviation of all pixels") {
  Tensor x = zeros({2, 2, 1, 2}, {.dtype = Dtype::u8});
  uint8_t* p = x.data<uint8_t>();
  p[0] = p[4] = 255;  // channel 0: 255 0 | 255 0
  p[3] = 51;          // channel 1: 0 51 | 0 0
  const ImageDataset set({x, tensor<int64_t>({0, 0})});
  const ChannelStats s = channel_stats(set);
  CHECK(s.mean[0] == doctest::Approx(0.5));
  CHECK(s.std[0] == doctest::Approx(0.5));
  CHECK(s.mean[1] == doctest::Approx(0.05));
  CHECK(s.std[1] == doctest::Approx(std::sqrt(0.0075)));
  const ChannelStats second = channel_stats(Subset(set, {1}));
  CHECK(second.mean[1] == 0);
  CHECK(second.std[1] == 0);
  CHECK(channel_stats(TensorDataset(x)).std[1] == doctest::Approx(s.std[1]));  // item by item
  const Tensor far = from_vector<double>({1e9 + 1, 1e9 + 3}, {2, 1, 1, 1});
  CHECK(channel_stats(TensorDataset(far)).mean[0] == 1e9 + 2);
  CHECK(channel_stats(TensorDataset(far)).std[0] == doctest::Approx(1));
  CHECK_THROWS_AS(channel_stats(Subset(set, {})), Error);
  CHECK_THROWS_AS(channel_stats(TensorDataset(zeros({2, 3}))), ShapeError);
}
