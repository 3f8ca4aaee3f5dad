/// What the tests made of the documentation use: names for its lines, freshly made for each of them, and a folder for
/// the files that its programs leave.
#pragma once
#include "tests/support/temporary_folder.h"

#include <tandem/tandem.h>

#include <iostream>
#include <vector>

namespace tandem::docs {

struct Names {
  Tensor x = rand({4, 8}), y = rand({4, 8});
  Tensor w = rand({3, 8}).set_requires_grad(), b = rand({3}).set_requires_grad();
  Tensor images = rand({2, 3, 8, 8}), kernel = rand({5, 3, 3, 3}),
         bytes = randint(0, 256, {2, 3, 8, 8}, {.dtype = Dtype::u8});
  Tensor logits = rand({4, 3}), labels = randint(0, 3, {4}), index = tensor({int64_t(0), int64_t(2)});
  std::vector<float> values = std::vector<float>(6);

  nn::Linear model{8, 3};
  nn::SGD optimizer{model.parameters(), {.lr = 0.1}};
  Tensor loss = cross_entropy(model(x), labels);

  data::TensorDataset dataset{x, labels};
  test::TemporaryFolder folder;
  std::string path = folder / "model.safetensors";
};

/// The current folder is a temporary one for as long as this lives.
class InFolderOfItsOwn {
 public:
  InFolderOfItsOwn() { std::filesystem::current_path(folder_.path()); }
  ~InFolderOfItsOwn() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }
  InFolderOfItsOwn(const InFolderOfItsOwn&) = delete;
  InFolderOfItsOwn& operator=(const InFolderOfItsOwn&) = delete;

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  test::TemporaryFolder folder_;
};

}  // namespace tandem::docs
