/// CIFAR10: 60,000 colour images of ten kinds of things (Krizhevsky, 2009).
#pragma once
#include <tandem/data/download.h>
#include <tandem/data/image_dataset.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::data {

/// Per channel, of the training images / 255. The deviation is that of all pixels; (0.2023, 0.1994, 0.2010), which is
/// often copied, is the mean of the images' own deviations.
inline const std::vector<double> kCifar10Mean{0.4914, 0.4822, 0.4465};
inline const std::vector<double> kCifar10Std{0.2470, 0.2435, 0.2616};

inline constexpr std::array<const char*, 10> kCifar10Classes{"airplane", "automobile", "bird",  "cat",  "deer",
                                                             "dog",      "frog",       "horse", "ship", "truck"};

/// Whether the files of the training or of the test images are where CIFAR10 looks for them; what is in them is not
/// looked at.
TANDEM_API bool has_cifar10(const std::filesystem::path& root, bool train = true);

/// Images u8 [n,3,32,32], labels 0 to 9 (torchvision.datasets.CIFAR10). Reads the binary version
/// (cifar-10-batches-bin) and the folder that torchvision leaves behind (cifar-10-batches-py); of the latter nothing is
/// executed.
class TANDEM_API CIFAR10 : public ImageDataset {
 public:
  struct Options {
    bool train = true;               // 50,000 training images, else 10,000 test images
    bool download = false;           // where they are not there yet, or not whole
    DownloadCallback progress = {};  // of the download
    std::string url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
  };

  /// root: that folder, or the one it lies in. Throws IoError, saying what was looked for, where there is neither or a
  /// file is not what it should be.
  explicit CIFAR10(const std::filesystem::path& root) : CIFAR10(root, Options()) {}
  CIFAR10(const std::filesystem::path& root, Options o);
};

}  // namespace tandem::data
