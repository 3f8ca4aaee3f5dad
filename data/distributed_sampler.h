/// DistributedSampler: each rank's share of an epoch.
#pragma once
#include <tandem/data/sampler.h>

namespace tandem::data {

/// Rank r's indices are every num_replicas-th of the epoch's permutation, from r on
/// (torch.utils.data.distributed.DistributedSampler, the same numbers for the same seed and epoch). Unlike there,
/// epochs advance by themselves, and a sampler that would leave a rank without items is refused.
class TANDEM_API DistributedSampler : public Sampler {
 public:
  struct Options {
    int64_t num_replicas = 1;
    int64_t rank = 0;
    bool shuffle = true;
    uint64_t seed = 0;       // the same on all ranks
    bool drop_last = false;  // drop what does not divide evenly, instead of repeating items from the front
    /// false: ranks get shares that differ by at most one, and no item twice. For evaluation: repeated items would
    /// count twice. Not with drop_last.
    bool pad = true;
  };

  /// n: size of the whole dataset. Throws Error for a rank outside [0, num_replicas), or where a rank would get
  /// nothing.
  DistributedSampler(int64_t n, Options o);
  /// Indices of this rank.
  int64_t size() const override { return share_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_;
  Options o_;
  int64_t share_;
};

}  // namespace tandem::data
