#include <tandem/data/batch_share_sampler.h>

namespace tandem::data {

BatchShareSampler::BatchShareSampler(Held<Sampler> all, BatchShareSamplerOptions o) : all_(std::move(all)), o_(o) {
  check(o.num_replicas >= 1 && o.rank >= 0 && o.rank < o.num_replicas, "[BatchShareSampler] rank ", o.rank, " of ",
        o.num_replicas);
  check(o.batch_size >= o.num_replicas, "[BatchShareSampler] a batch of ", o.batch_size, " leaves nothing for some of ",
        o.num_replicas, " ranks");
}

int64_t BatchShareSampler::size() const {
  const int64_t n = all_->size(), whole = n / o_.batch_size;
  return whole * share() + share_of(n - whole * o_.batch_size);
}

std::vector<int64_t> BatchShareSampler::order(uint64_t seed, int64_t epoch) const {
  const std::vector<int64_t> all = all_->order(seed, epoch);
  std::vector<int64_t> mine;
  mine.reserve(size_t(size()));
  for (int64_t b = 0; b < batches(); ++b) {
    const int64_t n = batch_size(b);
    const auto from = all.begin() + b * o_.batch_size + before(n);
    mine.insert(mine.end(), from, from + share_of(n));
  }
  return mine;
}

}  // namespace tandem::data
