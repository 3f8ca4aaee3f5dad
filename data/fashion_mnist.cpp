#include <tandem/data/fashion_mnist.h>
#include <tandem/data/idx.h>

#include <array>
#include <cstring>
#include <optional>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

std::array<fs::path, 3> folders(const fs::path& root) {
  return {root, root / "FashionMNIST" / "raw", root / "fashion-mnist"};  // the last two: torchvision's, Debian's
}

std::optional<fs::path> find(const fs::path& root, const std::string& name) {
  for (const fs::path& folder : folders(root))
    for (const char* ending : {".gz", ""}) {
      std::error_code ignored;
      fs::path file = folder / (name + ending);
      if (fs::is_regular_file(file, ignored)) return file;
    }
  return {};
}

fs::path find_or_throw(const fs::path& root, const std::string& name) {
  if (auto file = find(root, name)) return *file;
  const auto [plain, torchvision, debian] = folders(root);
  throw IoError(message("[FashionMNIST] looked for ", name, ".gz and ", name, " in ", plain.string(), ", ",
                        torchvision.string(), " and ", debian.string(),
                        "; Debian's package dataset-fashion-mnist puts it into ", kFashionMnistFolder));
}

struct Names {
  std::string images, labels;
};
Names file_names(bool train) {
  const std::string set = train ? "train" : "t10k";
  return {set + "-images-idx3-ubyte", set + "-labels-idx1-ubyte"};
}

// [n,28,28] to [n,3,32,32]: two pixels of zeros all around, three times.
Tensor like_cifar10(const Tensor& x) {
  const int64_t n = x.size(0), h = x.size(1), w = x.size(2), side = 32;
  Tensor y = zeros({n, 3, side, side}, {.dtype = Dtype::u8, .device = cpu()});
  const uint8_t* from = x.data<uint8_t>();
  uint8_t* to = y.data<uint8_t>() + (side - h) / 2 * side + (side - w) / 2;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t r = 0; r < h; ++r)
        std::memcpy(to + ((i * 3 + k) * side + r) * side, from + (i * h + r) * w, size_t(w));
  return y;
}

ByteImages read(const fs::path& root, const FashionMNIST::Options& o) {
  const Names names = file_names(o.train);
  const fs::path image_file = find_or_throw(root, names.images), label_file = find_or_throw(root, names.labels);
  const Tensor images = read_idx(image_file, 3), labels = read_idx(label_file, 1);
  const int64_t n = images.size(0);
  check<IoError>(images.size(1) == 28 && images.size(2) == 28, "[FashionMNIST] ", image_file.string(),
                 " holds images of shape ", images.shape(), ", [n,28,28] is wanted");
  check<IoError>(labels.size(0) == n, "[FashionMNIST] ", n, " images in ", image_file.string(), ", ", labels.size(0),
                 " labels in ", label_file.string());
  Tensor numbers = empty({n}, {.dtype = Dtype::i64, .device = cpu()});
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = labels.data<uint8_t>()[i];
    check<IoError>(label < 10, "[FashionMNIST] ", label_file.string(), ": image ", i, " has label ", label,
                   ", they go from 0 to 9");
    numbers.data<int64_t>()[i] = label;
  }
  const Dims grey{n, 1, 28, 28};
  return {o.like_cifar10 ? like_cifar10(images) : images.alias(grey, dense_strides(grey, Layout::row_major), 0),
          numbers};
}

}  // namespace

bool has_fashion_mnist(const fs::path& root, bool train) {
  const Names names = file_names(train);
  return find(root, names.images) && find(root, names.labels);
}

FashionMNIST::FashionMNIST(const fs::path& root, Options o) : ImageDataset(read(root, o)) {}

}  // namespace tandem::data
