/// Datasets and helpers of the loader's tests.
#pragma once
#include "tests/support/op_case.h"

#include <tandem/data/data_loader.h>
#include <tandem/data/image_dataset.h>
#include <tandem/data/normalize.h>
#include <tandem/data/random_crop.h>
#include <tandem/data/random_horizontal_flip.h>
#include <tandem/data/to_tensor.h>

namespace tandem::test {

using namespace data;
using Indices = std::vector<int64_t>;
using Epoch = std::vector<Indices>;

/// Item i is i, and whoever derives from it sees each call.
struct Counting : Dataset {
  int64_t n;
  explicit Counting(int64_t items) : n(items) {}
  int64_t size() const override { return n; }
  Sample get(int64_t i) const override {
    called(i);
    return full({}, double(i), {.dtype = Dtype::i64});
  }
  virtual void called(int64_t) const {}
};

inline ImageDataset random_images(int64_t n) {
  Tensor images = empty({n, 3, 8, 8}, {.dtype = Dtype::u8});
  Generator g(test_seed());
  for (uint8_t& v : images.span<uint8_t>()) v = uint8_t(g.random());
  return ImageDataset({images, arange(100, 100 + double(n))});
}

inline Transform augmentation() {
  return Compose({RandomCrop(8, {.padding = 2}), RandomHorizontalFlip(), ToTensor(), Normalize({0.5}, {0.5})});
}

inline Epoch epoch_of(DataLoader& l) {
  Epoch all;
  for (Batch& b : l) all.push_back(b.indices);
  return all;
}

/// Everything a batch holds, for comparing.
using Contents = std::vector<std::vector<double>>;
inline Contents contents(const Batch& b) {
  Contents all{b.input.to_vector<double>(), {b.indices.begin(), b.indices.end()}};
  if (b.target) all.push_back(b.target.to_vector<double>());
  for (auto& t : b.more) all.push_back(t.to_vector<double>());
  return all;
}

}  // namespace tandem::test
