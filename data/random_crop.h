/// RandomCrop: a window of the padded image.
#pragma once
#include <tandem/data/transform.h>

namespace tandem::data {

/// A window of the given size at a random place of the padded image (torchvision.transforms.RandomCrop). Before
/// ToTensor the padding is of bytes: after Normalize it is (fill / 255 - mean) / std, as there.
class TANDEM_API RandomCrop : public TransformStep {
 public:
  struct Options {
    int64_t padding = 0;
    PaddingMode padding_mode = PaddingMode::constant;
    double fill = 0;
  };

  explicit RandomCrop(int64_t size) : RandomCrop(size, Options()) {}
  RandomCrop(int64_t size, Options o) : RandomCrop(size, size, o) {}
  RandomCrop(int64_t height, int64_t width) : RandomCrop(height, width, Options()) {}
  /// Throws Error for sizes or paddings that can't be.
  RandomCrop(int64_t height, int64_t width, Options o);
  std::string name() const override;
  bool random() const override { return true; }
  bool join(AugmentOptions& pass, int draw) const override;

 private:
  int64_t height_, width_;
  Options o_;
};

}  // namespace tandem::data
