#include "tests/data/loader_fixtures.h"

#include <tandem/data/distributed_sampler.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

TEST_CASE("after the same manual_seed the order is PyTorch's, with any number of workers") {
  // torch.manual_seed(0), a shuffling loader and one that does not shuffle, in turn: PyTorch 1.13
  const Indices expected[] = {
      {6, 7, 1, 4, 2, 0, 9, 8, 3, 5}, {2, 4, 9, 8, 7, 5, 6, 1, 0, 3}, {1, 6, 0, 4, 2, 9, 3, 5, 8, 7}};
  for (int workers : {0, 1, 3}) {
    CAPTURE(workers);
    manual_seed(0);
    Counting set(10);
    DataLoader train(set, {.batch_size = 10, .shuffle = true, .num_workers = workers});
    DataLoader test(set, {.batch_size = 10, .num_workers = workers});
    for (const Indices& want : expected) {
      CHECK(epoch_of(train) == Epoch{want});
      CHECK(epoch_of(test) == Epoch{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}});
    }
    manual_seed(7);
    DataLoader alone(set, {.batch_size = 4, .shuffle = true, .num_workers = workers});
    CHECK(epoch_of(alone) == Epoch{{3, 2, 7, 8}, {6, 1, 5, 9}, {0, 4}});
    CHECK(epoch_of(alone) == Epoch{{1, 3, 5, 2}, {8, 9, 6, 7}, {4, 0}});
  }
}

TEST_CASE("leaving an epoch early is fine, the next loop is the next epoch") {
  for (int workers : {0, 2}) {
    CAPTURE(workers);
    const Counting set(40);
    DataLoader whole(set, {.batch_size = 4, .shuffle = true, .num_workers = workers, .seed = 2});
    const Epoch first = epoch_of(whole), second = epoch_of(whole);
    DataLoader loader(set, {.batch_size = 4, .shuffle = true, .num_workers = workers, .seed = 2});
    for (Batch& b : loader) {
      CHECK(b.indices == first[0]);
      break;
    }
    CHECK(epoch_of(loader) == second);
    int taken = 0;
    for ([[maybe_unused]] Batch& b : loader)
      if (++taken == 10) break;  // at the last batch
    CHECK(loader.epoch() == 2);
    loader.next();
  }  // and so is destroying a loader whose workers are busy
}

TEST_CASE("a loader's state continues in mid-epoch with the same batches") {
  CAPTURE(test_seed());
  const ImageDataset images = random_images(22);
  for (bool seeded : {true, false})
    for (int workers : {0, 2})
      for (int64_t stop : {0, 1, 4, 6, 7, 11, 12, 15}) {  // epochs have 6 batches
        CAPTURE(seeded);
        CAPTURE(workers);
        CAPTURE(stop);
        DataLoader::Options o{
            .batch_size = 4, .shuffle = true, .num_workers = workers, .seed = {}, .transform = augmentation()};
        if (seeded) o.seed = 6;
        manual_seed(test_seed());
        DataLoader straight(images, o);
        for (int64_t k = 0; k < stop;) k += bool(straight.next());
        const DataLoaderState state = straight.state();
        const std::string generator = default_generator().state();
        auto rest = [](DataLoader& l) {
          std::vector<Contents> all;
          for (int k = 0; k < 20; ++k) {
            auto b = l.next();
            all.push_back(b ? contents(*b) : Contents{});
          }
          return all;
        };
        const auto want = rest(straight);
        manual_seed(0);
        default_generator().set_state(generator);
        DataLoader resumed(images, o);
        resumed.set_state(state);
        CHECK(resumed.epoch() == state.sampler.epoch);
        CHECK(rest(resumed) == want);
      }
}

TEST_CASE("a for loop after set_state continues where it was") {
  const Counting set(10);
  for (int workers : {0, 2}) {
    DataLoader a(set, {.batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 9});
    const Epoch first = epoch_of(a), second = epoch_of(a);
    a.set_state({.seed = 9, .sampler = {.seed = 9, .epoch = 1, .offset = 6}});
    CHECK(epoch_of(a) == Epoch{second[2], second[3]});
    a.set_epoch(0);
    CHECK(epoch_of(a) == first);
    CHECK(epoch_of(a) == second);
    // From another batch size's position too: the offset counts items.
    a.set_state({.seed = 9, .sampler = {.seed = 9, .epoch = 1, .offset = 7}});
    CHECK(epoch_of(a) == Epoch{{second[2][1], second[2][2], second[3][0]}});
    CHECK_THROWS_AS(a.set_state({.seed = 9, .sampler = {.seed = 9, .epoch = 1, .offset = 11}}), Error);
  }
}

TEST_CASE("a sampler of the user's decides, and set_epoch on it is followed") {
  const Counting set(10);
  for (int workers : {0, 2}) {
    DistributedSampler sampler(10, {.num_replicas = 4, .rank = 1});
    DataLoader loader(set, {.batch_size = 2, .sampler = sampler, .num_workers = workers});
    CHECK(epoch_of(loader) == Epoch{{1, 9}, {2}});
    CHECK(epoch_of(loader) == Epoch{{6, 8}, {4}});  // by itself
    sampler.set_epoch(0);
    CHECK(epoch_of(loader) == Epoch{{1, 9}, {2}});
    CHECK(sampler.state() == SamplerState{0, 1, 0});
    loader.next();
    CHECK(sampler.state() == SamplerState{0, 1, 2});
    DataLoader owner(Counting(6), {.batch_size = 6, .sampler = RandomSampler(6, {.seed = 1}), .num_workers = workers});
    CHECK(epoch_of(owner)[0] == RandomSampler(6, {.seed = 1}).order(1, 0));
  }
}
