/// FashionMNIST: 70,000 grey images of ten kinds of clothes (Xiao, Rasul and Vollgraf, 2017).
#pragma once
#include <tandem/data/image_dataset.h>

#include <array>
#include <filesystem>

namespace tandem::data {

/// Where Debian's package dataset-fashion-mnist puts it.
inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

inline constexpr std::array<const char*, 10> kFashionMnistClasses{
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"};

/// Whether the files of the training or of the test images are where FashionMNIST looks for them; what is in them is
/// not looked at.
TANDEM_API bool has_fashion_mnist(const std::filesystem::path& root, bool train = true);

/// Images u8 [n,1,28,28], or [n,3,32,32], labels 0 to 9 (torchvision.datasets.FashionMNIST). Reads IDX files, gzipped
/// or not, in `root`, in root/FashionMNIST/raw, where torchvision leaves them, or in root/fashion-mnist.
class TANDEM_API FashionMNIST : public ImageDataset {
 public:
  struct Options {
    bool train = true;          // 60,000 training images, else 10,000 test images
    bool like_cifar10 = false;  // padded with zeros to 32x32, and repeated to three channels
  };

  /// Throws IoError, saying what was looked for, where a file is missing or not what it should be.
  FashionMNIST(const std::filesystem::path& root, Options o);
  explicit FashionMNIST(const std::filesystem::path& root) : FashionMNIST(root, Options()) {}
  explicit FashionMNIST(Options o) : FashionMNIST(kFashionMnistFolder, o) {}
  FashionMNIST() : FashionMNIST(Options()) {}
};

}  // namespace tandem::data
