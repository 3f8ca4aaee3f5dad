#include <tandem/core/generator.h>
#include <tandem/core/parallel_for.h>
#include <tandem/data/synthetic.h>

#include <algorithm>

namespace tandem::data {
namespace {

constexpr int64_t kGrid = 4, kMargin = 2;  // cells per side of a pattern; how far it may be shifted
enum Stream : uint32_t { patterns, train_images, test_images };

// Bytes that depend on their keys alone, 16 at a time.
class RandomBytes {
 public:
  RandomBytes(uint64_t seed, Stream stream, int64_t index)
      : seed_(seed), counter_{uint32_t(index), uint32_t(uint64_t(index) >> 32), 0, stream} {}
  uint8_t operator()() {
    if (used_ == 16) {
      words_ = philox(seed_, counter_);
      ++counter_[2];
      used_ = 0;
    }
    const uint8_t byte = uint8_t(words_[size_t(used_ / 4)] >> 8 * (used_ % 4));
    ++used_;
    return byte;
  }

 private:
  uint64_t seed_;
  std::array<uint32_t, 4> counter_, words_{};
  int used_ = 16;
};

// Random corners of kGrid x kGrid cells, with straight lines between them, in whole numbers.
std::vector<uint8_t> pattern(const Synthetic::Options& o, int64_t label) {
  const int64_t h = o.height + 2 * kMargin, w = o.width + 2 * kMargin, side = kGrid + 1;
  RandomBytes random(o.seed, patterns, label);
  std::vector<uint8_t> p;
  for (int64_t k = 0; k < o.channels; ++k) {
    int64_t corner[side][side];
    for (auto& row : corner)
      for (int64_t& v : row) v = random();
    for (int64_t y = 0; y < h; ++y)
      for (int64_t x = 0; x < w; ++x) {
        const int64_t cy = y * kGrid / h, cx = x * kGrid / w;            // the cell
        const int64_t fy = y * kGrid - cy * h, fx = x * kGrid - cx * w;  // within it, in parts of h and w
        const int64_t top = corner[cy][cx] * (w - fx) + corner[cy][cx + 1] * fx;
        const int64_t bottom = corner[cy + 1][cx] * (w - fx) + corner[cy + 1][cx + 1] * fx;
        p.push_back(uint8_t((top * (h - fy) + bottom * fy) / (h * w)));
      }
  }
  return p;
}

ByteImages make(const Synthetic::Options& o) {
  check(o.size >= 0 && o.classes >= 1 && o.classes <= 1000 && o.channels >= 1 && o.height >= 1 && o.width >= 1 &&
            o.noise >= 0 && o.noise <= 255,
        "[Synthetic] ", o.size, " images of ", o.channels, "x", o.height, "x", o.width, ", ", o.classes,
        " classes, noise ", o.noise);
  std::vector<std::vector<uint8_t>> of_class;
  for (int64_t k = 0; k < o.classes; ++k) of_class.push_back(pattern(o, k));
  ByteImages data{empty({o.size, o.channels, o.height, o.width}, {.dtype = Dtype::u8, .device = cpu()}),
                  empty({o.size}, {.dtype = Dtype::i64, .device = cpu()})};
  uint8_t* pixels = data.images.data<uint8_t>();
  int64_t* labels = data.labels.data<int64_t>();
  parallel_for(o.size, 16, [&](int64_t begin, int64_t end) {
    const int64_t h = o.height + 2 * kMargin, w = o.width + 2 * kMargin;
    for (int64_t i = begin; i < end; ++i) {
      RandomBytes random(o.seed, o.train ? train_images : test_images, i);
      labels[i] = (random() * 256 + random()) % o.classes;
      const int64_t dy = random() % (2 * kMargin + 1), dx = random() % (2 * kMargin + 1);
      const int light = random() % 65 - 32;
      const std::vector<uint8_t>& p = of_class[size_t(labels[i])];
      uint8_t* to = pixels + i * o.channels * o.height * o.width;
      for (int64_t k = 0; k < o.channels; ++k)
        for (int64_t y = 0; y < o.height; ++y)
          for (int64_t x = 0; x < o.width; ++x) {
            const int noise = int(random()) * (2 * o.noise + 1) / 256 - o.noise;
            *to++ = uint8_t(std::clamp(p[size_t((k * h + y + dy) * w + x + dx)] + light + noise, 0, 255));
          }
    }
  });
  return data;
}

}  // namespace

Synthetic::Synthetic(Options o) : ImageDataset(make(o)) {}

}  // namespace tandem::data
