#include <tandem/data/sampler.h>

#include <doctest/doctest.h>

#include <algorithm>

using namespace tandem;
using namespace tandem::data;

using Indices = std::vector<int64_t>;

namespace {

Indices epoch_of(Sampler& s) {
  Indices all;
  while (auto i = s.next()) all.push_back(*i);
  return all;
}

}  // namespace

TEST_CASE("a SequentialSampler counts, epoch after epoch") {
  SequentialSampler s(4);
  CHECK(epoch_of(s) == Indices{0, 1, 2, 3});
  CHECK(s.epoch() == 1);
  CHECK(epoch_of(s) == Indices{0, 1, 2, 3});
  SequentialSampler none(0);
  CHECK(epoch_of(none).empty());
}

TEST_CASE("without a seed a RandomSampler repeats PyTorch's order") {
  manual_seed(3);
  RandomSampler s(6);
  CHECK(epoch_of(s) == Indices{1, 4, 5, 2, 0, 3});  // torch.manual_seed(3); list(RandomSampler(range(6)))
}

TEST_CASE("with a seed a RandomSampler's order depends on seed and epoch alone") {
  RandomSampler a(257, {.seed = 3}), b(257, {.seed = 3});
  default_generator().random();
  auto first = epoch_of(a), second = epoch_of(a);
  CHECK(first != second);
  CHECK(Indices(first.begin(), first.begin() + 8) == Indices{200, 153, 39, 52, 32, 53, 109, 4});  // torch.randperm
  auto sorted = second;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == SequentialSampler(257).order(0, 0));
  b.set_epoch(1);
  CHECK(epoch_of(b) == second);
  b.set_epoch(0);
  CHECK(epoch_of(b) == first);
}

TEST_CASE("a sampler's position can be saved and restored") {
  for (bool seeded : {true, false}) {
    CAPTURE(seeded);
    RandomSampler::Options o;
    if (seeded) o.seed = 11;
    manual_seed(5);
    RandomSampler s(20, o);
    epoch_of(s);
    for (int i = 0; i < 7; ++i) s.next();
    const SamplerState here = s.state();
    CHECK(here.epoch == 1);
    CHECK(here.offset == 7);
    const Indices rest = epoch_of(s);
    CHECK(rest.size() == 13);
    RandomSampler other(20, o);
    other.set_state(here);
    CHECK(epoch_of(other) == rest);
    CHECK(other.epoch() == 2);
  }
}

TEST_CASE("samplers refuse what makes no sense") {
  CHECK_THROWS_AS(RandomSampler(0), Error);
  CHECK_THROWS_AS(SequentialSampler(-1), Error);
  SequentialSampler s(4);
  CHECK_THROWS_AS(s.set_epoch(-1), Error);
  CHECK_THROWS_WITH_AS(s.set_state({.offset = 5}), "[set_state] epoch 0, offset 5 of a sampler of 4", Error);
}
