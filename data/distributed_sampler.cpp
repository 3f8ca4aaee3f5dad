#include <tandem/data/distributed_sampler.h>

#include <numeric>

namespace tandem::data {
namespace {

int64_t share_of(int64_t n, const DistributedSampler::Options& o) {
  if (!o.pad) return (n - o.rank + o.num_replicas - 1) / o.num_replicas;
  return o.drop_last ? n / o.num_replicas : (n + o.num_replicas - 1) / o.num_replicas;
}

}  // namespace

DistributedSampler::DistributedSampler(int64_t n, Options o) : Sampler(o.seed), n_(n), o_(o) {
  check(n > 0, "[DistributedSampler] of ", n, " items");
  check(o.num_replicas >= 1 && o.rank >= 0 && o.rank < o.num_replicas, "[DistributedSampler] rank ", o.rank, " of ",
        o.num_replicas, " replicas");
  check(o.pad || !o.drop_last, "[DistributedSampler] pad = false and drop_last exclude each other");
  check((o.pad && !o.drop_last) || n >= o.num_replicas, "[DistributedSampler] ", n, " items for ", o.num_replicas,
        " replicas would leave a rank with nothing: fewer replicas, ", o.drop_last ? "drop_last = false" : "pad = true",
        " or more data");
  share_ = share_of(n, o);
}

std::vector<int64_t> DistributedSampler::order(uint64_t seed, int64_t epoch) const {
  std::vector<int64_t> all;
  if (o_.shuffle) {
    all = Generator(seed + uint64_t(epoch)).randperm(n_);
  } else {
    all.resize(size_t(n_));
    std::iota(all.begin(), all.end(), int64_t{0});
  }
  std::vector<int64_t> mine;
  mine.reserve(size_t(share_));
  for (int64_t k = 0; k < share_; ++k)
    mine.push_back(all[size_t((o_.rank + k * o_.num_replicas) % n_)]);  // beyond the end: from the front again
  return mine;
}

}  // namespace tandem::data
