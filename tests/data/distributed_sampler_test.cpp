#include <tandem/data/distributed_sampler.h>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tandem;
using namespace tandem::data;

using Indices = std::vector<int64_t>;

namespace {

struct Case {
  int64_t n, replicas;
  uint64_t seed;
  int64_t epoch;
  bool shuffle, drop_last;
  std::vector<Indices> ranks;
};

Indices epoch_of(Sampler& s) {
  Indices all;
  while (auto i = s.next()) all.push_back(*i);
  return all;
}

}  // namespace

TEST_CASE("a DistributedSampler gives PyTorch's shares") {
  // torch.utils.data.distributed.DistributedSampler
  const Case cases[] = {
      {10, 4, 0, 0, true, false, {{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}}},
      {10, 4, 0, 1, true, false, {{5, 0, 7}, {6, 8, 4}, {1, 9, 5}, {2, 3, 6}}},
      {7, 3, 5, 2, true, true, {{5, 1}, {0, 2}, {3, 6}}},
      {8, 4, 1, 1, true, true, {{0, 6}, {4, 5}, {7, 1}, {2, 3}}},
      {2, 5, 0, 0, false, false, {{0}, {1}, {0}, {1}, {0}}},
      {3, 2, 0, 0, true, false, {{2, 1}, {0, 2}}},
  };
  for (const Case& c : cases)
    for (int64_t r = 0; r < c.replicas; ++r) {
      CAPTURE(c.n);
      CAPTURE(r);
      DistributedSampler s(
          c.n, {.num_replicas = c.replicas, .rank = r, .shuffle = c.shuffle, .seed = c.seed, .drop_last = c.drop_last});
      s.set_epoch(c.epoch);
      CHECK(s.size() == int64_t(c.ranks[size_t(r)].size()));
      CHECK(epoch_of(s) == c.ranks[size_t(r)]);
    }
}

TEST_CASE("a DistributedSampler goes on to the next epoch by itself") {
  DistributedSampler s(10, {.num_replicas = 4, .rank = 1});
  CHECK(epoch_of(s) == Indices{1, 9, 2});
  CHECK(epoch_of(s) == Indices{6, 8, 4});
}

TEST_CASE("without padding a DistributedSampler gives every item once") {
  Indices all;
  for (int64_t r = 0; r < 4; ++r) {
    DistributedSampler s(10, {.num_replicas = 4, .rank = r, .pad = false});
    Indices mine = epoch_of(s);
    CHECK(int64_t(mine.size()) == s.size());
    CHECK(mine.size() == (r < 2 ? 3 : 2));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("a DistributedSampler gives no rank nothing") {
  CHECK_THROWS_WITH_AS(DistributedSampler(3, {.num_replicas = 4, .drop_last = true}),
                       "[DistributedSampler] 3 items for 4 replicas would leave a rank with nothing: fewer replicas, "
                       "drop_last = false or more data",
                       Error);
  CHECK_THROWS_AS(DistributedSampler(3, {.num_replicas = 4, .pad = false}), Error);
  CHECK_THROWS_AS(DistributedSampler(0, {.num_replicas = 1}), Error);
  CHECK_THROWS_AS(DistributedSampler(9, {.num_replicas = 4, .rank = 4}), Error);
  CHECK_THROWS_AS(DistributedSampler(9, {.num_replicas = 4, .rank = -1}), Error);
  CHECK_THROWS_AS(DistributedSampler(9, {.num_replicas = 4, .drop_last = true, .pad = false}), Error);
  CHECK(DistributedSampler(4, {.num_replicas = 4, .drop_last = true}).size() == 1);
}
