#include "apps/cifar10/datasets.h"

#include <tandem/tandem.h>

#include <chrono>
#include <filesystem>
#include <numeric>

namespace fs = std::filesystem;

namespace tandem::cifar10 {
namespace {

const fs::path kHere = "data", kDebianFashionMnist = data::kFashionMnistFolder;

std::vector<std::string> names(std::span<const char* const> list) { return {list.begin(), list.end()}; }

Datasets cifar10(const fs::path& root, bool download, std::string why,
                 const std::function<void(const std::string&)>& say) {
  data::CIFAR10Options o{.train = true, .download = download};
  auto shown = std::chrono::steady_clock::now();
  o.progress = [&](const data::DownloadProgress& p) {
    auto now = std::chrono::steady_clock::now();
    if (now - shown < std::chrono::seconds(1)) return;
    shown = now;
    say(message("fetching CIFAR-10: ", p.received >> 20, " of ", p.total >> 20, " MB"));
  };
  auto train = std::make_shared<data::CIFAR10>(root, o);
  o.train = false;
  auto test = std::make_shared<data::CIFAR10>(root, o);
  return {"cifar10", std::move(why), train, test, names(data::kCifar10Classes)};
}

Datasets fashion_mnist(const fs::path& root, std::string why) {
  // Grey 28x28, as the networks take it: a frame of 2, three equal channels.
  auto part = [&](bool train) {
    return std::make_shared<data::FashionMNIST>(root, data::FashionMNISTOptions{.train = train, .like_cifar10 = true});
  };
  return {"fashion-mnist", std::move(why), part(true), part(false), names(data::kFashionMnistClasses)};
}

Datasets synthetic(std::string why) {
  auto part = [&](bool train) {
    return std::make_shared<data::Synthetic>(data::SyntheticOptions{.size = train ? 10000 : 2000, .train = train});
  };
  std::vector<std::string> classes;
  for (int i = 0; i < 10; ++i) classes.push_back(message("pattern ", i));
  return {"synthetic", std::move(why), part(true), part(false), classes};
}

bool has_cifar10(const fs::path& root) {
  for (auto& folder : {root, root / "cifar-10-batches-bin", root / "cifar-10-batches-py"})
    if (fs::exists(folder / "data_batch_1.bin") || fs::exists(folder / "data_batch_1")) return true;
  return false;
}

bool has_fashion_mnist(const fs::path& root) {
  for (auto& folder : {root, root / "FashionMNIST" / "raw", root / "fashion-mnist"})
    for (const char* ending : {".gz", ""})
      if (fs::exists(folder / message("train-images-idx3-ubyte", ending))) return true;
  return false;
}

}  // namespace

Datasets open_datasets(const DataOptions& o, const std::function<void(const std::string&)>& say) {
  const bool any = o.dataset == "auto";
  if (o.dataset == "synthetic") return synthetic("made-up patterns, as asked for");
  if (!o.data.empty()) {
    if (o.dataset == "fashion-mnist" || (any && !has_cifar10(o.data) && has_fashion_mnist(o.data)))
      return fashion_mnist(o.data, message("Fashion-MNIST from ", o.data, ", the folder asked for"));
    return cifar10(o.data, false, message("CIFAR-10 from ", o.data, ", the folder asked for"), say);
  }
  const fs::path fashion = has_fashion_mnist(kHere) ? kHere : kDebianFashionMnist;
  if (o.dataset == "fashion-mnist")
    return fashion_mnist(fashion, message("Fashion-MNIST from ", fashion.string(), ", as asked for"));

  std::string trouble = "CIFAR-10 is not in ./data and downloads are off";
  const bool here = has_cifar10(kHere);
  if (here || o.download) {
    try {
      return cifar10(kHere, o.download, here ? "CIFAR-10 from ./data" : "CIFAR-10, fetched into ./data", say);
    } catch (const IoError& e) {
      if (!any) throw;
      trouble = message("CIFAR-10 is not ", here ? "whole " : "", "in ./data: ", e.what());
    }
  }
  check<IoError>(any, trouble, "; --data DIR says where it is");
  if (has_fashion_mnist(fashion))
    return fashion_mnist(fashion, message("Fashion-MNIST from ", fashion.string(), ", since ", trouble));
  return synthetic(message("made-up patterns, since there is no Fashion-MNIST and ", trouble));
}

std::shared_ptr<const data::Dataset> first(std::shared_ptr<const data::Dataset> d, int64_t n) {
  if (n <= 0 || n >= d->size()) return d;
  std::vector<int64_t> indices(static_cast<size_t>(n));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return std::make_shared<data::Subset>(d, indices);
}

namespace {
data::Normalize normalize_step(const std::string& name) {
  if (name == "cifar10") return {data::kCifar10Mean, data::kCifar10Std};
  return {{0.5}, {0.5}};
}
}  // namespace

data::Transform train_transform(const std::string& normalize) {
  return data::Compose({data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip(), data::ToTensor(),
                        normalize_step(normalize)});
}
data::Transform test_transform(const std::string& normalize) {
  return data::Compose({data::ToTensor(), normalize_step(normalize)});
}

}  // namespace tandem::cifar10
