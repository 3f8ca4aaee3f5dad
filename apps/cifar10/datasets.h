/// Which images a run trains on and is tested on: chosen by what was asked for and what is there.
#pragma once
#include "apps/cifar10/options.h"

#include <tandem/data/dataset.h>
#include <tandem/data/transform.h>

#include <functional>
#include <memory>

namespace tandem::cifar10 {

enum class Parts : uint8_t { both, test };

struct Datasets {
  std::string name;  // cifar10, fashion-mnist, synthetic
  std::string why;   // one line: which, from where, and why this one
  std::shared_ptr<const data::Dataset> train,
      test;  // images u8 [3,32,32], labels 0 to 9; train is null with Parts::test
  std::vector<std::string> classes;
};

/// --data or TANDEM_DATA, else ./data, else a download, else Fashion-MNIST, else synthetic; --dataset NAME insists.
/// `say` gets lines on the way (a download's progress). Throws IoError where what was asked for is not to be had.
Datasets open_datasets(const DataOptions& o, Parts parts, const std::function<void(const std::string&)>& say);

/// The first n items; all where n is 0 or more than there are.
std::shared_ptr<const data::Dataset> first(std::shared_ptr<const data::Dataset> d, int64_t n);

/// Training: crop with 4 pixels of padding, flip, normalise. Testing: normalise.
data::Transform train_transform(const std::string& normalize);
data::Transform test_transform(const std::string& normalize);

}  // namespace tandem::cifar10
