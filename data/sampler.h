/// Samplers: in which order an epoch visits the items. An order is a function of (seed, epoch), so that a position can
/// be saved, restored and reached without replaying what came before.
#pragma once
#include <tandem/core/generator.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::data {

/// Where a sampler stands: before index `offset` of the order that (seed, epoch) gives.
struct SamplerState {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t offset = 0;
  bool operator==(const SamplerState&) const = default;
};

/// Base of all samplers. A loader takes whole epochs from it and moves it along with the batches it hands out; without
/// a loader, next() walks through it. One position: a sampler serves one loader at a time.
class TANDEM_API Sampler {
 public:
  virtual ~Sampler() = default;
  /// How many indices an epoch has.
  virtual int64_t size() const = 0;
  /// An epoch's indices.
  virtual std::vector<int64_t> order(uint64_t seed, int64_t epoch) const = 0;
  /// The seed of a new epoch: the sampler's own, or one drawn from `g`, as the kind of sampler has it.
  virtual uint64_t epoch_seed(Generator& g) const { return (void)g, state_.seed; }

  /// The next index; nothing at the end of an epoch, after which the next epoch begins by itself. An epoch's seed comes
  /// from the thread's generator where the sampler has none.
  std::optional<int64_t> next();
  int64_t epoch() const { return state_.epoch; }
  /// The next epoch is this one, from its start. Not needed: epochs advance by themselves.
  void set_epoch(int64_t epoch);
  SamplerState state() const { return state_; }
  /// Continues from a saved state. Throws Error for an offset beyond the epoch.
  void set_state(const SamplerState& s);

  Sampler() = default;
  Sampler(const Sampler&) = default;
  Sampler& operator=(const Sampler&) = default;

 protected:
  explicit Sampler(uint64_t seed) { state_.seed = seed; }

 private:
  friend class DataLoader;
  SamplerState state_;
  bool moved_ = false;          // by set_epoch or set_state: the next epoch starts from here
  bool started_ = false;        // the seed of this epoch is settled
  std::vector<int64_t> order_;  // of this epoch, for next()
};

/// 0, 1, ..., n-1 (torch.utils.data.SequentialSampler).
class TANDEM_API SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t n);
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_;
};

/// A new permutation of 0..n-1 in each epoch (torch.utils.data.RandomSampler without replacement).
class TANDEM_API RandomSampler : public Sampler {
 public:
  struct Options {
    /// With a seed, epoch e is the permutation of a generator seeded with seed + e (as DistributedSampler's). Without
    /// one, each epoch draws its seed from the thread's generator: PyTorch's order after the same manual_seed.
    std::optional<uint64_t> seed = {};
  };

  /// Throws Error unless n is positive.
  explicit RandomSampler(int64_t n) : RandomSampler(n, Options()) {}
  RandomSampler(int64_t n, Options o);
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;
  uint64_t epoch_seed(Generator& g) const override;

 private:
  int64_t n_;
  bool seeded_;
};

}  // namespace tandem::data
