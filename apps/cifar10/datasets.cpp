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

// `open(train)` opens a part.
template <class Open>
Datasets of_parts(std::string name, std::string why, Parts parts, const Open& open, std::vector<std::string> classes) {
  return {std::move(name), std::move(why), parts == Parts::both ? open(true) : nullptr, open(false),
          std::move(classes)};
}

Datasets cifar10(const fs::path& root, Parts parts, bool download, std::string why,
                 const std::function<void(const std::string&)>& say) {
  data::CIFAR10::Options o{.download = download};
  auto shown = std::chrono::steady_clock::now();
  o.progress = [&](const data::DownloadProgress& p) {
    auto now = std::chrono::steady_clock::now();
    if (now - shown < std::chrono::seconds(1)) return;
    shown = now;
    say(message("fetching CIFAR-10: ", p.received >> 20, " of ", p.total >> 20, " MB"));
  };
  auto part = [&](bool train) {
    o.train = train;
    return std::make_shared<data::CIFAR10>(root, o);
  };
  return of_parts("cifar10", std::move(why), parts, part, names(data::kCifar10Classes));
}

Datasets fashion_mnist(const fs::path& root, Parts parts, std::string why) {
  // Grey 28x28, as the networks take it: a frame of 2, three equal channels.
  auto part = [&](bool train) {
    return std::make_shared<data::FashionMNIST>(root,
                                                data::FashionMNIST::Options{.train = train, .like_cifar10 = true});
  };
  return of_parts("fashion-mnist", std::move(why), parts, part, names(data::kFashionMnistClasses));
}

Datasets synthetic(Parts parts, std::string why) {
  auto part = [&](bool train) {
    return std::make_shared<data::Synthetic>(data::Synthetic::Options{.size = train ? 10000 : 2000, .train = train});
  };
  std::vector<std::string> classes;
  for (int i = 0; i < 10; ++i) classes.push_back(message("pattern ", i));
  return of_parts("synthetic", std::move(why), parts, part, std::move(classes));
}

}  // namespace

Datasets open_datasets(const DataOptions& o, Parts parts, const std::function<void(const std::string&)>& say) {
  auto is_in = [&](const fs::path& root, bool (*has)(const fs::path&, bool)) {
    return has(root, false) && (parts == Parts::test || has(root, true));
  };
  const bool any = o.dataset == "auto";
  if (o.dataset == "synthetic") return synthetic(parts, "made-up patterns, as asked for");
  if (!o.data.empty()) {
    const bool grey = any && !is_in(o.data, data::has_cifar10) && is_in(o.data, data::has_fashion_mnist);
    if (grey || o.dataset == "fashion-mnist")
      return fashion_mnist(o.data, parts, message("Fashion-MNIST from ", o.data, ", the folder asked for"));
    return cifar10(o.data, parts, false, message("CIFAR-10 from ", o.data, ", the folder asked for"), say);
  }
  const fs::path fashion = is_in(kHere, data::has_fashion_mnist) ? kHere : kDebianFashionMnist;
  if (o.dataset == "fashion-mnist")
    return fashion_mnist(fashion, parts, message("Fashion-MNIST from ", fashion.string(), ", as asked for"));

  std::string trouble = "CIFAR-10 is not in ./data and downloads are off";
  const bool here = is_in(kHere, data::has_cifar10);
  if (here || o.download) {
    try {
      const char* why = here ? "CIFAR-10 from ./data" : "CIFAR-10, fetched into ./data";
      return cifar10(kHere, parts, o.download, why, say);
    } catch (const IoError& e) {
      if (!any) throw;
      trouble = message("CIFAR-10 is not ", here ? "whole " : "", "in ./data: ", e.what());
    }
  }
  check<IoError>(any, trouble, "; --data DIR says where it is");
  if (is_in(fashion, data::has_fashion_mnist))
    return fashion_mnist(fashion, parts, message("Fashion-MNIST from ", fashion.string(), ", since ", trouble));
  return synthetic(parts, message("made-up patterns, since there is no Fashion-MNIST and ", trouble));
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
