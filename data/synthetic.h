/// Synthetic: images made up on the spot, for programs and tests without data.
#pragma once
#include <tandem/data/image_dataset.h>

namespace tandem::data {

/// Images u8 [n,c,h,w] with labels: each class has a smooth coloured pattern, which an image shows shifted by up to two
/// pixels, brighter or darker, and under noise. A net can learn it, and must look beyond single pixels. The same bytes
/// for the same options on every machine.
class TANDEM_API Synthetic : public ImageDataset {
 public:
  struct Options {
    int64_t size = 10000;
    int64_t classes = 10;
    int64_t channels = 3;
    int64_t height = 32, width = 32;
    uint64_t seed = 0;  // of the patterns and of the images
    bool train = true;  // else other images of the same patterns
    int noise = 64;     // what is added to a pixel is uniform in [-noise, noise]
  };

  /// Throws Error for sizes that can't be.
  Synthetic() : Synthetic(Options()) {}
  explicit Synthetic(Options o);
};

}  // namespace tandem::data
