#include <tandem/data/sampler.h>

#include <limits>
#include <numeric>

namespace tandem::data {

std::optional<int64_t> Sampler::next() {
  if (!started_) {
    if (state_.offset == 0) state_.seed = epoch_seed(default_generator());
    order_ = order(state_.seed, state_.epoch);
    started_ = true;
    moved_ = false;
  }
  if (state_.offset < int64_t(order_.size())) return order_[size_t(state_.offset++)];
  ++state_.epoch;
  state_.offset = 0;
  started_ = false;
  return {};
}

void Sampler::set_epoch(int64_t epoch) {
  check(epoch >= 0, "[set_epoch] epoch ", epoch);
  state_.epoch = epoch;
  state_.offset = 0;
  moved_ = true;
  started_ = false;
}

void Sampler::set_state(const SamplerState& s) {
  check(s.epoch >= 0 && s.offset >= 0 && s.offset <= size(), "[set_state] epoch ", s.epoch, ", offset ", s.offset,
        " of a sampler of ", size());
  state_ = s;
  moved_ = true;
  started_ = false;
}

SequentialSampler::SequentialSampler(int64_t n) : n_(n) { check(n >= 0, "[SequentialSampler] of ", n, " items"); }

std::vector<int64_t> SequentialSampler::order(uint64_t, int64_t) const {
  std::vector<int64_t> order(static_cast<size_t>(n_));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

RandomSampler::RandomSampler(int64_t n, Options o) : Sampler(o.seed.value_or(0)), n_(n), seeded_(o.seed.has_value()) {
  check(n > 0, "[RandomSampler] of ", n, " items");
}

std::vector<int64_t> RandomSampler::order(uint64_t seed, int64_t epoch) const {
  return Generator(seeded_ ? seed + uint64_t(epoch) : seed).randperm(n_);
}

uint64_t RandomSampler::epoch_seed(Generator& g) const {
  // As torch.empty((), dtype=torch.int64).random_() draws it.
  return seeded_ ? state().seed : g.random64() & uint64_t(std::numeric_limits<int64_t>::max());
}

}  // namespace tandem::data
