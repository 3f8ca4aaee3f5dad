/// BatchShareSampler: each rank's part of every batch that one device would have.
#pragma once
#include <tandem/data/held.h>
#include <tandem/data/sampler.h>

#include <algorithm>

namespace tandem::data {

struct BatchShareSamplerOptions {
  int64_t batch_size = 1;  // of all ranks together
  int64_t num_replicas = 1;
  int64_t rank = 0;
};

/// Cuts another sampler's order into batches and each batch into consecutive shares that differ by at most one item,
/// the first ranks' being the larger ones. So the ranks' batches together are those of one device, whatever the number
/// of ranks, also for the last batch, which is shorter: the ranks beyond its size have no part in that one. A loader on
/// this sampler makes batches of `share()` items.
class TANDEM_API BatchShareSampler : public Sampler {
 public:
  /// Throws Error for a rank outside [0, num_replicas), and where a batch has less items than there are ranks.
  BatchShareSampler(Held<Sampler> all, BatchShareSamplerOptions o);
  /// Items of this rank.
  int64_t size() const override;
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;
  uint64_t epoch_seed(Generator& g) const override { return all_->epoch_seed(g); }

  /// How many items of a batch of n are this rank's, and how many are those of the ranks before it.
  int64_t share_of(int64_t n) const { return n / o_.num_replicas + (o_.rank < n % o_.num_replicas); }
  int64_t before(int64_t n) const { return n / o_.num_replicas * o_.rank + std::min(o_.rank, n % o_.num_replicas); }
  /// Of a whole batch.
  int64_t share() const { return share_of(o_.batch_size); }
  /// Batches in an epoch, of all ranks.
  int64_t batches() const { return (all_->size() + o_.batch_size - 1) / o_.batch_size; }
  /// How many items batch b has on all ranks together.
  int64_t batch_size(int64_t b) const { return std::min(o_.batch_size, all_->size() - b * o_.batch_size); }

 private:
  Held<Sampler> all_;
  BatchShareSamplerOptions o_;
};

}  // namespace tandem::data
