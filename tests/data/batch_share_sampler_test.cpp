// BatchShareSampler: the ranks' batches together are those of one device.
#include <tandem/data/batch_share_sampler.h>
#include <tandem/data/data_loader.h>
#include <tandem/data/tensor_dataset.h>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tandem;
using namespace tandem::data;

TEST_CASE("batches of all ranks, put side by side, are those of one device, whatever their number") {
  for (int64_t n : {1, 7, 40, 41, 53})
    for (int64_t batch : {8, 13}) {
      const auto alone = RandomSampler(n, {.seed = 3}).order(3, 2);
      for (int64_t ranks : {1, 2, 3, 5, 8}) {
        CAPTURE(n);
        CAPTURE(batch);
        CAPTURE(ranks);
        std::vector<std::vector<int64_t>> orders;
        std::vector<size_t> at(static_cast<size_t>(ranks));
        std::vector<BatchShareSampler> samplers;
        for (int64_t r = 0; r < ranks; ++r) {
          samplers.emplace_back(RandomSampler(n, {.seed = 3}),
                                BatchShareSamplerOptions{.batch_size = batch, .num_replicas = ranks, .rank = r});
          orders.push_back(samplers.back().order(3, 2));
          CHECK(int64_t(orders.back().size()) == samplers.back().size());
        }
        std::vector<int64_t> together;
        for (int64_t b = 0; b < samplers[0].batches(); ++b) {
          const int64_t size = samplers[0].batch_size(b);
          for (int64_t r = 0; r < ranks; ++r) {
            const auto& s = samplers[size_t(r)];
            CHECK(s.before(size) == int64_t(together.size()) - b * batch);
            CHECK(s.share_of(size) <= s.share());
            CHECK(s.share_of(size) <= samplers[0].share_of(size));
            for (int64_t i = 0; i < s.share_of(size); ++i) together.push_back(orders[size_t(r)][at[size_t(r)]++]);
          }
        }
        CHECK(together == alone);
      }
    }
}

TEST_CASE("a loader on it makes the shares as batches, and epochs go on") {
  Tensor x = arange(0, 11);
  for (int64_t rank : {0, 1}) {
    BatchShareSampler sampler(SequentialSampler(11), {.batch_size = 4, .num_replicas = 2, .rank = rank});
    DataLoader loader(TensorDataset(x, x), {.batch_size = sampler.share(), .sampler = sampler});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::vector<int64_t>> batches;
      for (auto& [input, _] : loader) batches.push_back(input.to_vector<int64_t>());
      CHECK(batches == (rank == 0 ? std::vector<std::vector<int64_t>>{{0, 1}, {4, 5}, {8, 9}}
                                  : std::vector<std::vector<int64_t>>{{2, 3}, {6, 7}, {10}}));
    }
  }
}

TEST_CASE("shares that can't be") {
  SequentialSampler all(10);
  CHECK_THROWS_AS(BatchShareSampler(all, {.batch_size = 2, .num_replicas = 3}), Error);
  CHECK_THROWS_AS(BatchShareSampler(all, {.batch_size = 4, .num_replicas = 2, .rank = 2}), Error);
}
