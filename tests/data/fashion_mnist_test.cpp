#include "tests/data/archive_writer.h"
#include "tests/support/temporary_folder.h"

#include <tandem/data/fashion_mnist.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace fs = std::filesystem;

namespace {

std::string big_endian(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

std::string images(uint32_t n, uint32_t h = 28, uint32_t w = 28, uint32_t magic = 0x803) {
  std::string s = big_endian(magic) + big_endian(n) + big_endian(h) + big_endian(w);
  for (uint32_t i = 0; i < n * h * w; ++i) s += char(i % 253 + 1);
  return s;
}
std::string labels(const std::string& values) {
  return big_endian(0x801) + big_endian(uint32_t(values.size())) + values;
}

void write_test_set(const fs::path& folder, const std::string& image_bytes, const std::string& label_bytes) {
  write_text(folder / "t10k-images-idx3-ubyte.gz", image_bytes);
  write_text(folder / "t10k-labels-idx1-ubyte.gz", label_bytes);
}

std::string failure(const fs::path& folder) {
  try {
    FashionMNIST(folder, {.train = false});
  } catch (const IoError& e) {
    return e.what();
  }
  FAIL("it was read");
  return "";
}

void check_contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
}

}  // namespace

TEST_CASE("FashionMNIST reads gzipped and plain IDX files") {
  TemporaryFolder folder;
  const std::string bytes = images(3);
  write_test_set(folder.path(), gzip(bytes), gzip(labels({7, 0, 9})));
  const FashionMNIST set(folder.path(), {.train = false});
  CHECK(set.size() == 3);
  CHECK(set.images().shape() == Dims{3, 1, 28, 28});
  CHECK(set.labels().to_vector<int64_t>() == std::vector<int64_t>{7, 0, 9});
  CHECK(set.get(2).input.data<uint8_t>()[5] == uint8_t(bytes[16 + 2 * 784 + 5]));
  // As torchvision leaves it.
  const fs::path raw = folder / "elsewhere/FashionMNIST/raw";
  fs::create_directories(raw);
  write_text(raw / "train-images-idx3-ubyte", bytes);
  CHECK_FALSE(has_fashion_mnist(folder / "elsewhere"));
  write_text(raw / "train-labels-idx1-ubyte", labels({1, 2, 3}));
  CHECK(has_fashion_mnist(folder / "elsewhere"));
  CHECK(has_fashion_mnist(raw));
  CHECK_FALSE(has_fashion_mnist(raw, false));
  const FashionMNIST train(folder / "elsewhere");
  CHECK(train.images().to_vector<int64_t>() == set.images().to_vector<int64_t>());
  // Debian's folder or its parent.
  fs::create_directories(folder / "datasets/fashion-mnist");
  write_test_set(folder / "datasets/fashion-mnist", gzip(bytes), gzip(labels({7, 0, 9})));
  CHECK(FashionMNIST(folder / "datasets", {.train = false}).size() == 3);
}

TEST_CASE("FashionMNIST like CIFAR-10 is padded to 32x32 and repeated to three channels") {
  TemporaryFolder folder;
  write_test_set(folder.path(), gzip(images(2)), gzip(labels({1, 2})));
  const FashionMNIST grey(folder.path(), {.train = false}), set(folder.path(), {.train = false, .like_cifar10 = true});
  CHECK(set.images().shape() == Dims{2, 3, 32, 32});
  const uint8_t *x = grey.images().data<uint8_t>(), *y = set.images().data<uint8_t>();
  int wrong = 0;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t r = 0; r < 32; ++r)
        for (int64_t c = 0; c < 32; ++c) {
          const bool inside = r >= 2 && r < 30 && c >= 2 && c < 30;
          const int want = inside ? x[(i * 28 + r - 2) * 28 + c - 2] : 0;
          wrong += *y++ != want;
        }
  CHECK(wrong == 0);
}

TEST_CASE("FashionMNIST says what it looked for") {
  TemporaryFolder folder;
  check_contains(failure(folder.path()),
                 "looked for t10k-images-idx3-ubyte.gz and t10k-images-idx3-ubyte in " + folder.path());
}

TEST_CASE("FashionMNIST refuses files that are not what they should be") {
  TemporaryFolder folder;
  const std::string good = gzip(images(2)), good_labels = gzip(labels({1, 2}));
  auto say = [&](const std::string& i, const std::string& l) {
    write_test_set(folder.path(), i, l);
    return failure(folder.path());
  };
  check_contains(say(gzip(images(2, 28, 28, 0x801)), good_labels), "begins with 2049");
  check_contains(say(gzip(images(2, 27, 28)), good_labels), "holds images of shape [2,27,28]");
  check_contains(say(good, gzip(labels({1, 2, 3}))), "2 images in");
  check_contains(say(good, gzip(labels({1, 10}))), "image 1 has label 10");
  check_contains(say(gzip(images(2) + "x"), good_labels), "goes on after");
  check_contains(say(gzip(images(2).substr(0, 1000)), good_labels), "ends before its 1568 bytes");
  check_contains(say(gzip("abc"), good_labels), "is cut off");
  check_contains(say("", good_labels), "t10k-images-idx3-ubyte.gz");
  CHECK_FALSE(say(good.substr(0, 900), good_labels).empty());
  // A header that promises 13 TB takes no memory.
  const std::string huge = big_endian(0x803) + std::string("\xff\xff\xff\xff\0\0\0\x1c\0\0\0\x1c", 12);
  check_contains(say(gzip(huge), good_labels), "is too short for what it says");
}
