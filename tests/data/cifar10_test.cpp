#include "tests/data/cifar_pickle_writer.h"
#include "tests/support/temporary_folder.h"

#include <tandem/data/cifar10.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace fs = std::filesystem;

namespace {

constexpr int64_t kRecord = 3073, kRecords = 10000;

int label_of(int64_t i) { return int(i * 7 % 10); }
char pixel_of(int64_t i, int64_t at) { return char((i * 31 + at * 5) % 256); }

void write_binary(const fs::path& file) {
  std::string s(size_t(kRecords * kRecord), '\0');
  for (int64_t i = 0; i < kRecords; ++i) {
    s[size_t(i * kRecord)] = char(label_of(i));
    for (int64_t at : {0, 1, 1024, 3071}) s[size_t(i * kRecord + 1 + at)] = pixel_of(i, at);
  }
  write_text(file, s);
}

void write_pickle(const fs::path& file) {
  std::vector<int> labels;
  std::string pixels(size_t(kRecords * 3072), '\0');
  for (int64_t i = 0; i < kRecords; ++i) {
    labels.push_back(label_of(i));
    for (int64_t at : {0, 1, 1024, 3071}) pixels[size_t(i * 3072 + at)] = pixel_of(i, at);
  }
  write_text(file, cifar_pickle(labels, pixels));
}

void check_test_images(const CIFAR10& set) {
  CHECK(set.size() == kRecords);
  CHECK(set.images().shape() == Dims{kRecords, 3, 32, 32});
  for (int64_t i : {0, 1, 499, 500, 9999}) {
    CAPTURE(i);
    const Sample s = set.get(i);
    CHECK(s.target.item<int64_t>() == label_of(i));
    for (int64_t at : {0, 1, 1024, 3071}) CHECK(s.input.data<uint8_t>()[at] == uint8_t(pixel_of(i, at)));
    CHECK(s.input.data<uint8_t>()[77] == 0);
  }
}

}  // namespace

TEST_CASE("CIFAR10 reads the binary version, from its folder or the one above") {
  TemporaryFolder folder;
  const fs::path inner = folder / "cifar-10-batches-bin";
  fs::create_directory(inner);
  write_binary(inner / "test_batch.bin");
  check_test_images(CIFAR10(folder.path(), {.train = false}));
  check_test_images(CIFAR10(inner, {.train = false}));
  CHECK(has_cifar10(folder.path(), false));
  CHECK_FALSE(has_cifar10(folder.path()));
  for (int i = 1; i <= 5; ++i)
    fs::create_hard_link(inner / "test_batch.bin", inner / message("data_batch_", i, ".bin"));
  CHECK(has_cifar10(folder.path()));
  CHECK(has_cifar10(inner));
  const CIFAR10 train(folder.path());
  CHECK(train.size() == 5 * kRecords);
  CHECK(train.get(40001).target.item<int64_t>() == label_of(1));
}

TEST_CASE("CIFAR10 reads the folder that torchvision leaves behind") {
  TemporaryFolder folder;
  const fs::path inner = folder / "cifar-10-batches-py";
  fs::create_directory(inner);
  write_pickle(inner / "test_batch");
  check_test_images(CIFAR10(folder.path(), {.train = false}));
  check_test_images(CIFAR10(inner, {.train = false}));
  CHECK(has_cifar10(folder.path(), false));
  write_text(inner / "test_batch", cifar_pickle({1}, std::string(3072, '\0')));
  CHECK_THROWS_WITH_AS(CIFAR10(inner, {.train = false}),
                       ("[CIFAR10] " + (inner / "test_batch").string() + " has 1 images, 10000 are wanted").c_str(),
                       IoError);
}

TEST_CASE("CIFAR10 says what it looked for") {
  TemporaryFolder folder;
  const std::string root = folder.path();
  CHECK_THROWS_WITH_AS(CIFAR10(folder.path(), {.train = false}),
                       ("[CIFAR10] no test images: looked for test_batch.bin in " + root + " and " + root +
                        "/cifar-10-batches-bin, and for test_batch in " + root + " and " + root +
                        "/cifar-10-batches-py; download = true fetches them")
                           .c_str(),
                       IoError);
  CHECK_THROWS_AS(CIFAR10(folder / "nowhere"), IoError);
}

TEST_CASE("CIFAR10 checks sizes and labels") {
  TemporaryFolder folder;
  const fs::path file = folder / "test_batch.bin";
  write_text(file, std::string(1000, '\0'));
  CHECK_THROWS_WITH_AS(CIFAR10(folder.path(), {.train = false}),
                       ("[CIFAR10] " + file.string() + " has 1000 bytes, 30730000 are wanted").c_str(), IoError);
  fs::resize_file(file, kRecords * kRecord);
  CHECK(CIFAR10(folder.path(), {.train = false}).size() == kRecords);
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(7 * kRecord).put('\x0a').flush();
  CHECK_THROWS_WITH_AS(CIFAR10(folder.path(), {.train = false}),
                       ("[CIFAR10] " + file.string() + ": image 7 has label 10, they go from 0 to 9").c_str(), IoError);
}
