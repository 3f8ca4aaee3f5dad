#include <tandem/core/generator.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>

using namespace tandem;

TEST_CASE("the draws are MT19937's") {
  Generator g(5489);  // the seed of the reference implementation, whose 10,000th number is known
  uint32_t v = 0;
  for (int i = 0; i < 10000; ++i) v = g.random();
  CHECK(v == 4123659995u);
  // Only the low 32 bits of a seed count; all of it is remembered.
  Generator a((1ull << 40) + 7), b(7);
  CHECK(a.random() == b.random());
  CHECK(a.initial_seed() == (1ull << 40) + 7);
  CHECK(Generator().initial_seed() == 67280421310721ull);
}

TEST_CASE("what a draw becomes") {
  Generator g(3), raw(3);
  CHECK(g.uniform_float() == float(raw.random() % (1u << 24)) / float(1u << 24));
  const uint64_t high = raw.random(), low = raw.random();
  CHECK(g.uniform_double() == double((high << 32 | low) % (1ull << 53)) / double(1ull << 53));
  CHECK(g.randint(-5, 10) == -5 + int64_t(raw.random() % 15));
  CHECK(g.randint(0, 1ll << 40) == int64_t(raw.random64() % (1ull << 40)));
  CHECK(g.randint(INT64_MIN, INT64_MAX) == int64_t(raw.random64() % ~0ull + (1ull << 63)));
  CHECK_THROWS_WITH_AS(g.randint(4, 4), "[randint] an empty range from 4 to 4", Error);
}

TEST_CASE("permutations") {
  Generator g(100);
  CHECK(g.randperm(10) == std::vector<int64_t>{0, 8, 5, 2, 3, 6, 4, 1, 7, 9});
  auto p = g.randperm(1000);
  std::sort(p.begin(), p.end());
  for (int64_t i = 0; i < 1000; ++i) REQUIRE(p[size_t(i)] == i);
  CHECK(g.randperm(0).empty());
  CHECK_THROWS_AS(g.randperm(-1), Error);
}

TEST_CASE("a state is all there is: draws go on where it was taken") {
  Generator g(11);
  g.random();
  g.normal_double();  // keeps a second number
  const std::string state = g.state();
  const double normal = g.normal_double();
  const uint64_t draw = g.random64();
  Generator h;
  h.set_state(state);
  CHECK(h.initial_seed() == 11);
  CHECK(h.normal_double() == normal);
  CHECK(h.random64() == draw);
  CHECK(h.state() == g.state());
  Generator copy = h;
  CHECK(copy.random() == h.random());

  const std::string before = g.state();
  for (const std::string& bad : {std::string(), std::string("12"), std::string("x"),
                                 before.substr(0, before.size() / 2), before + " 1 2", before + " x"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(g.set_state(bad), "[set_state] this is no generator's state", Error);
    CHECK(g.state() == before);
  }
}

TEST_CASE("manual_seed seeds this thread's generator and counters") {
  context().random = {.seed = 1, .step = 2, .call = 3};
  manual_seed(17);
  CHECK(default_generator().initial_seed() == 17);
  CHECK(context().random.seed == 17);
  CHECK(context().random.step == 0);
  CHECK(context().random.call == 0);
  const uint32_t first = default_generator().random();
  uint32_t elsewhere = first;
  std::thread([&] {
    manual_seed(18);
    elsewhere = default_generator().random();
  }).join();
  CHECK(elsewhere != first);
  CHECK(default_generator().random() == [] {
    Generator g(17);
    g.random();
    return g.random();
  }());
  context().random = {};
}

TEST_CASE("normal numbers have mean 0 and deviation 1") {
  Generator g(1);
  double sum = 0, squares = 0;
  for (int i = 0; i < 20000; ++i) {
    const double v = g.normal_double();
    sum += v;
    squares += v * v;
  }
  CHECK(std::abs(sum / 20000) < 0.03);
  CHECK(std::abs(squares / 20000 - 1) < 0.05);
}

// The test vectors of the Random123 library.
TEST_CASE("philox") {
  using Four = std::array<uint32_t, 4>;
  CHECK(philox(0, {0, 0, 0, 0}) == Four{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox(~0ull, {~0u, ~0u, ~0u, ~0u}) == Four{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox(0x299f31d0a4093822ull, {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}) ==
        Four{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}
