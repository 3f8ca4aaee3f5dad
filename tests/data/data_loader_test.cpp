#include "tests/data/loader_fixtures.h"

#include <tandem/core/parallel_for.h>
#include <tandem/core/pool.h>
#include <tandem/data/distributed_sampler.h>
#include <tandem/data/subset.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace {

// Draws from the thread's generator, as a user's augmentation may.
struct Drawing : Counting {
  using Counting::Counting;
  Sample get(int64_t i) const override {
    return {full({2}, default_generator().uniform_float()),
            tensor({default_generator().uniform_float()}),
            {full({}, double(i))}};
  }
};

template <class F>
bool soon(F&& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

}  // namespace

TEST_CASE("a user's dataset, as in PyTorch's tutorials") {
  struct RandomDataset : Dataset {
    Tensor data;
    RandomDataset(int64_t size, int64_t length) : data(random_tensor({length, size}, {})) {}
    int64_t size() const override { return data.size(0); }
    Sample get(int64_t i) const override { return data.alias({data.size(1)}, {1}, i * data.size(1)); }
  };
  const RandomDataset dataset(5, 90);
  DataLoader loader(dataset, {.batch_size = 30, .shuffle = true});
  CHECK(loader.size() == 3);
  int batches = 0;
  for (auto& batch : loader) {
    CHECK(batch.input.shape() == Dims{30, 5});
    CHECK_FALSE(batch.target.defined());
    CHECK(batch.count() == 30);
    CHECK(batch.input.to_vector()[7] == dataset.data.to_vector()[size_t(batch.indices[1] * 5 + 2)]);
    ++batches;
  }
  CHECK(batches == 3);
}

TEST_CASE("the last batch is what is left, or is dropped") {
  DataLoader keep(Counting(10), {.batch_size = 4}), drop(Counting(10), {.batch_size = 4, .drop_last = true});
  CHECK(epoch_of(keep) == Epoch{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  CHECK(epoch_of(drop) == Epoch{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(keep.size() == 3);
  CHECK(drop.size() == 2);
  DataLoader none(Counting(0), {});
  CHECK(epoch_of(none).empty());
  CHECK(keep.next()->input.to_vector<int64_t>() == Indices{0, 1, 2, 3});
}

TEST_CASE("batches are the same with 0, 1 and 8 workers, whatever is random") {
  CAPTURE(test_seed());
  const ImageDataset images = random_images(23);
  const Subset some(images, {3, 3, 20, 1, 8, 15, 22, 9, 0, 11, 2});
  const Drawing drawing(17);
  struct {
    const Dataset& set;
    Transform transform;
  } cases[] = {{images, augmentation()}, {some, augmentation()}, {images, {}}, {drawing, {}}};
  for (auto& c : cases)
    for (bool seeded : {true, false}) {
      std::vector<Contents> first;
      for (int workers : {0, 1, 8}) {
        CAPTURE(workers);
        CAPTURE(seeded);
        manual_seed(test_seed());
        DataLoader::Options o{
            .batch_size = 4, .shuffle = true, .num_workers = workers, .seed = {}, .transform = c.transform};
        if (seeded) o.seed = test_seed() + 3;
        DataLoader loader(c.set, o);
        std::vector<Contents> all;
        for (int epoch = 0; epoch < 3; ++epoch)
          for (Batch& b : loader) all.push_back(contents(b));
        if (first.empty()) first = all;
        CHECK(all == first);
        CHECK(all[0] != all[size_t(loader.size())]);
      }
    }
}

TEST_CASE("a batch of bytes comes out of one pass, channels-last, with its labels") {
  const ImageDataset images = random_images(9);
  DataLoader loader(images, {.batch_size = 5, .seed = 4, .transform = augmentation()});
  auto [x, y] = *loader.next();
  CHECK(x.shape() == Dims{5, 3, 8, 8});
  CHECK(x.dtype() == Dtype::f32);
  CHECK(x.is_contiguous(Layout::channels_last));
  CHECK(y.to_vector<int64_t>() == Indices{100, 101, 102, 103, 104});
  const Indices samples{0, 1, 2, 3, 4};
  CHECK(same_bits(x, augmentation().gather(images.images(), samples, {4, 0, samples})));
}

TEST_CASE("what a sample looks like does not depend on who else is in the batch") {
  const ImageDataset images = random_images(12);
  auto sample = [&](DataLoader::Options o, int64_t wanted) {
    o.seed = 8;
    o.transform = augmentation();
    DataLoader loader(images, o);
    for (Batch& b : loader)
      for (size_t k = 0; k < b.indices.size(); ++k)
        if (b.indices[k] == wanted) {
          auto v = b.input.to_vector();
          return std::vector<float>(v.begin() + long(k) * 192, v.begin() + long(k + 1) * 192);
        }
    return std::vector<float>{};
  };
  const auto alone = sample({.batch_size = 1}, 7);
  CHECK(alone.size() == 192);
  CHECK(sample({.batch_size = 12, .shuffle = true}, 7) == alone);
  CHECK(sample({.batch_size = 3, .sampler = DistributedSampler(12, {.num_replicas = 2, .rank = 1, .shuffle = false})},
               7) == alone);
}

TEST_CASE("workers make a bounded number of batches ahead, across the epoch's edge") {
  struct Counted : Counting {
    using Counting::Counting;
    mutable std::atomic<int> calls{0};
    void called(int64_t) const override { ++calls; }
  };
  const Counted set(12);
  DataLoader loader(set, {.batch_size = 2, .num_workers = 2, .prefetch_factor = 2, .seed = 1});
  CHECK(set.calls == 0);
  loader.next();
  CHECK(soon([&] { return set.calls == 10; }));  // one taken and four ahead
  for (int i = 1; i < 6; ++i) loader.next();
  CHECK(soon([&] { return set.calls == 20; }));  // the epoch's six, and four of the next
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(set.calls == 20);
  CHECK_FALSE(loader.next());
  CHECK(epoch_of(loader).size() == 6);
  CHECK(soon([&] { return set.calls == 32; }));  // nothing was made twice
}

TEST_CASE("worker threads are kept over epochs, with one thread each and the caller's context") {
  set_cpu_devices(2);
  struct Watching : Counting {
    using Counting::Counting;
    mutable std::mutex m;
    mutable std::set<std::thread::id> ids;
    mutable std::set<int> threads;
    void called(int64_t) const override {
      std::lock_guard l(m);
      ids.insert(std::this_thread::get_id());
      threads.insert(num_threads());
    }
  };
  const Watching set(40);
  DeviceGuard on(cpu(1));
  DataLoader loader(set, {.batch_size = 2, .num_workers = 3});
  for (int epoch = 0; epoch < 4; ++epoch)
    for (Batch& b : loader) CHECK(b.input.device() == cpu(1));  // where items were made
  CHECK(set.ids.size() <= 3);
  CHECK(set.ids.count(std::this_thread::get_id()) == 0);
  CHECK(set.threads == std::set<int>{1});
}

TEST_CASE("an error reaches the caller at its batch, and the loader goes on") {
  struct Broken : Counting {
    using Counting::Counting;
    void called(int64_t i) const override {
      if (i == 5) throw IoError("item 5 is unreadable");
    }
  };
  const Broken set(10);
  for (int workers : {0, 1, 4}) {
    CAPTURE(workers);
    DataLoader loader(set, {.batch_size = 2, .num_workers = workers});
    CHECK(loader.next()->indices == Indices{0, 1});
    CHECK(loader.next()->indices == Indices{2, 3});
    CHECK_THROWS_WITH_AS(loader.next(), "item 5 is unreadable", IoError);
    CHECK(loader.next()->indices == Indices{6, 7});
    CHECK(loader.next()->indices == Indices{8, 9});
    CHECK_FALSE(loader.next());
    CHECK_THROWS_AS(epoch_of(loader), IoError);
    CHECK_THROWS_AS(epoch_of(loader), IoError);
  }
}

TEST_CASE("a loader's memory is bounded by the batches that may exist at once") {
  const ImageDataset images = random_images(64);
  const size_t batch = 16 * 3 * 8 * 8 * sizeof(float), labels_and_indices = 4096;
  for (int workers : {0, 2}) {
    DataLoader loader(images, {.batch_size = 16, .num_workers = workers, .seed = 1, .transform = augmentation()});
    const size_t before = memory_allocated();
    reset_peak_memory_stats();
    for (int epoch = 0; epoch < 5; ++epoch) epoch_of(loader);
    const size_t batches = workers ? 6 : 1;  // four ahead, one about to be taken, one with the caller
    CHECK(max_memory_allocated() - before <= batches * (batch + labels_and_indices));
  }
}

TEST_CASE("items that don't fit together are named") {
  struct Growing : Counting {
    using Counting::Counting;
    Sample get(int64_t i) const override { return zeros({1 + i / 3}); }
  };
  DataLoader loader(Growing(6), {.batch_size = 6});
  CHECK_THROWS_WITH_AS(loader.next(), "[DataLoader] item 3 has shape [2], item 0 has [1]: those of a batch must agree",
                       ShapeError);
  struct Halfway : Counting {
    using Counting::Counting;
    Sample get(int64_t i) const override { return i ? Sample(zeros({1}), 3) : Sample(zeros({1})); }
  };
  CHECK_THROWS_AS(DataLoader(Halfway(2), {.batch_size = 2}).next(), Error);
  struct Strided : Counting {
    using Counting::Counting;
    Tensor t = arange(0, 6);
    Sample get(int64_t i) const override { return t.alias({3}, {2}, i); }
  };
  CHECK(DataLoader(Strided(2), {.batch_size = 2}).next()->input.to_vector<int64_t>() == Indices{0, 2, 4, 1, 3, 5});
}

TEST_CASE("options that make no sense are refused") {
  const Counting set(5);
  CHECK_THROWS_WITH_AS(DataLoader(set, {.shuffle = true, .sampler = SequentialSampler(5)}),
                       "[DataLoader] shuffle and sampler exclude each other: the sampler decides", Error);
  CHECK_THROWS_WITH_AS(DataLoader(set, {.prefetch_factor = 2}), "[DataLoader] prefetch_factor needs num_workers > 0",
                       Error);
  CHECK_THROWS_WITH_AS(DataLoader(set, {.batch_size = 8, .drop_last = true}),
                       "[DataLoader] drop_last leaves no batch: 5 items, batch_size 8", Error);
  CHECK_THROWS_AS(DataLoader(set, {.batch_size = 0}), Error);
  CHECK_THROWS_AS(DataLoader(set, {.num_workers = -1}), Error);
  CHECK_THROWS_AS(DataLoader(set, {.num_workers = 1, .prefetch_factor = 0}), Error);
  CHECK_THROWS_AS(DataLoader(Counting(0), {.shuffle = true}), Error);
}
