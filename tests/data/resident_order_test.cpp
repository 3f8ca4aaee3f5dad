// Batches of images that lie on a device (support/test_device.h), the CPU among them.
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/core/step_graph.h>
#include <tandem/data/data_loader.h>
#include <tandem/data/image_dataset.h>
#include <tandem/data/normalize.h>
#include <tandem/data/random_crop.h>
#include <tandem/data/random_horizontal_flip.h>
#include <tandem/data/resident_order.h>
#include <tandem/data/subset.h>
#include <tandem/data/to_tensor.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace {

constexpr int64_t kImages = 10;

ByteImages images_on(Device d) {
  std::vector<uint8_t> bytes(static_cast<size_t>(kImages * 3 * 6 * 5));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * i % 251);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kImages; ++i) labels.push_back(100 + i);
  return {from_vector(bytes, {kImages, 3, 6, 5}, {.device = d}), from_vector(labels, {kImages}, {.device = d})};
}

Transform training() {
  return Compose{RandomCrop(6, 5, {.padding = 2}), RandomHorizontalFlip(), ToTensor(), Normalize({0.5}, {0.25})};
}

DataLoader::Options shuffled() { return {.batch_size = 4, .shuffle = true, .seed = 3, .transform = training()}; }

void check_same(const Batch& got, const Batch& want) {
  CHECK(got.indices == want.indices);
  CHECK(got.input.device() == test_device());
  CHECK(same_bits(got.input, want.input));
  CHECK(same_bits(got.target, want.target));
}

}  // namespace

TEST_CASE("an order beside its images gives the batches that the host's gives") {
  const ByteImages images = images_on(test_device());
  const Transform transform = training();
  ResidentOrder order(test_device(), 5);
  const std::vector<int64_t> rows{7, 2, 2, 9, 0}, samples{70, 20, 21, 90, 1};
  order.begin(rows, {11, 4, samples});
  for (int64_t from : {0, 2, 1}) {
    if (order.position() != from) order.go_to(from);
    const auto these = [&](const std::vector<int64_t>& all) { return std::span(all).subspan(size_t(from), 2); };
    Batch b = order.next(images, transform, {}, 2);
    CHECK(order.position() == from + 2);
    CHECK(same_bits(b.input, transform.gather(images.images, these(rows), {11, 4, these(samples)})));
    CHECK(b.target.to_vector<int64_t>() == std::vector<int64_t>{100 + these(rows)[0], 100 + these(rows)[1]});
  }
  CHECK_THROWS_AS(order.begin(std::vector<int64_t>{1, 2}, {0, 0, std::vector<int64_t>{1, 2}}), Error);
}

TEST_CASE("a loader's batches are the same wherever the images lie, from any position") {
  const ImageDataset here(images_on(test_device())), host(images_on(cpu()));
  DataLoader a(here, shuffled()), b(host, shuffled());
  for (int epoch = 0; epoch < 2; ++epoch)
    for (int k = 0; k <= 3; ++k) {  // the last one is short
      auto got = a.next(), want = b.next();
      REQUIRE(got.has_value() == want.has_value());
      if (got) check_same(*got, *want);
    }
  const DataLoaderState later{.seed = 3, .sampler = {.seed = 3, .epoch = 5, .offset = 4}};
  a.set_state(later);
  b.set_state(later);
  for (int k = 0; k < 2; ++k) check_same(*a.next(), *b.next());

  const std::vector<int64_t> part{8, 1, 5, 3};
  DataLoader of_part(Subset(here, part), shuffled()), of_part_on_host(Subset(host, part), shuffled());
  check_same(*of_part.next(), *of_part_on_host.next());
}

TEST_CASE("a captured step takes the batches that an eager one takes, epoch after epoch") {
  const ImageDataset here(images_on(test_device())), host(images_on(cpu()));
  DataLoader::Options o = shuffled();
  o.drop_last = true;
  DataLoader loader(here, o), eager(host, o);
  auto next = [](DataLoader& l) {
    auto b = l.next();
    return b ? *b : *l.next();  // a new epoch
  };
  Batch batch;
  StepGraph step([&] { batch = next(loader); }, {.warm_up = 1});
  for (int k = 0; k < 7; ++k) {
    CAPTURE(k);
    step();
    const Batch want = next(eager);
    CHECK(same_bits(batch.input, want.input));
    CHECK(same_bits(batch.target, want.target));
    CHECK(loader.state() == eager.state());
  }
  CHECK(step.is_captured() == !on_cpu());
  loader.set_state({.seed = 3, .sampler = {.seed = 3, .epoch = 9, .offset = 4}});
  eager.set_state(loader.state());
  step();
  CHECK(same_bits(batch.input, next(eager).input));
}
