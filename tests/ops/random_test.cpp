#include "tests/support/op_case.h"

#include <tandem/core/copy.h>
#include <tandem/core/generator.h>
#include <tandem/ops/random.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace tandem;
using namespace tandem::test;

namespace {

void check_near(const Tensor& x, const std::vector<double>& want, double tolerance) {
  auto got = x.to_vector<double>();
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element ", i, ": ", got[i], " against ", want[i]);
    CHECK(std::abs(got[i] - want[i]) <= tolerance);
  }
}

}  // namespace

// What PyTorch prints for these seeds.
TEST_CASE("rand, randn, randint and randperm give PyTorch's numbers") {
  manual_seed(0);
  check_near(rand({3}), {0.4963, 0.7682, 0.0885}, 5e-5);
  manual_seed(42);
  check_near(rand({2, 2}), {0.8823, 0.9150, 0.3829, 0.9593}, 5e-5);
  manual_seed(0);
  check_near(randn({3}), {1.5410, -0.2934, -2.1788}, 5e-5);
  manual_seed(42);
  check_near(randn({4}), {0.3367, 0.1288, 0.2345, 0.2303}, 5e-5);
  manual_seed(0);
  check_near(randn({4, 4}),
             {-1.1258, -1.1524, -0.2506, -0.4339, 0.8487, 0.6920, -0.3160, -2.1152, 0.3223, -1.2633, 0.3500, 0.3081,
              0.1198, 1.2377, 1.1168, -0.2473},
             5e-5);
  manual_seed(42);
  check_near(randn({16}),
             {1.9269, 1.4873, 0.9007, -2.1055, 0.6784, -1.2345, -0.0431, -1.6047, -0.7521, 1.6487, -0.3925, -1.4036,
              -0.7279, -0.5594, -0.7688, 0.7624},
             5e-5);
  manual_seed(0);
  CHECK(randint(0, 10, {5}).to_vector<int64_t>() == std::vector<int64_t>{4, 9, 3, 0, 3});
  manual_seed(100);
  CHECK(randperm(10).to_vector<int64_t>() == std::vector<int64_t>{0, 8, 5, 2, 3, 6, 4, 1, 7, 9});
  manual_seed(0);
  CHECK(randperm(2).to_vector<int64_t>() == std::vector<int64_t>{0, 1});
  CHECK(randperm(1).to_vector<int64_t>() == std::vector<int64_t>{0});
  CHECK(randperm(0).numel() == 0);
}

// The default initial weights of Linear(5, 2) and, from the same stream, of its bias; then those of a Conv2d(3, 4, 3).
TEST_CASE("uniform_ gives PyTorch's initial weights to the bit") {
  manual_seed(0);
  const double bound = std::sqrt(3.0) * (std::sqrt(2.0 / 6.0) / std::sqrt(5.0));
  Tensor w = empty({2, 5}), b = empty({2});
  uniform_(w, -bound, bound);
  uniform_(b, -1 / std::sqrt(5.0), 1 / std::sqrt(5.0));
  CHECK(w.to_vector() == std::vector<float>{-0.003348207799717784f, 0.23990486562252045f, -0.36807698011398315f,
                                            -0.3291219472885132f, -0.17224626243114471f, 0.11992361396551132f,
                                            -0.008860723115503788f, 0.3545909523963928f, -0.039687544107437134f,
                                            0.11833833158016205f});
  CHECK(b.to_vector() == std::vector<float>{-0.13515380024909973f, -0.08790671080350876f});

  manual_seed(0);
  const double conv_bound = std::sqrt(3.0) * (std::sqrt(2.0 / 6.0) / std::sqrt(27.0));
  Tensor k = empty({4, 3, 3, 3}, {.layout = Layout::channels_last});
  uniform_(k, -conv_bound, conv_bound);
  auto v = k.to_vector();
  CHECK(std::vector<float>(v.begin(), v.begin() + 9) ==
        std::vector<float>{-0.0014408392598852515f, 0.10323861986398697f, -0.15839511156082153f, -0.14163152873516083f,
                           -0.07412299513816833f, 0.051606908440589905f, -0.0038130483590066433f, 0.15259164571762085f,
                           -0.01707880012691021f});
  CHECK(v.back() == -0.1484476625919342f);
}

TEST_CASE("uniform_ rounds once") {
  manual_seed(3);
  Tensor x = empty({1000});
  uniform_(x, -0.3, 0.7);
  Generator s(3);
  for (float v : x.to_vector()) REQUIRE(v == std::fma(s.uniform_float(), 0.7f - -0.3f, -0.3f));
  manual_seed(3);
  Tensor d = rand({100}, {.dtype = Dtype::f64});
  Generator t(3);
  for (double v : d.to_vector<double>()) REQUIRE(v == double(t.random64() & ((1ull << 53) - 1)) / double(1ull << 53));
}

TEST_CASE("half-precision uniform numbers take as many bits of a draw as the dtype has") {
  manual_seed(5);
  Tensor h = rand({50}, {.dtype = Dtype::f16}), b = rand({50}, {.dtype = Dtype::bf16});
  Generator s(5);
  for (float v : h.to_vector()) REQUIRE(v == float(s.random() % 2048) / 2048);
  for (float v : b.to_vector()) REQUIRE(v == float(s.random() % 256) / 256);
}

TEST_CASE("normal numbers: blocks of 16, the last one drawn anew") {
  for (int64_t n : {16, 17, 31, 32, 45}) {
    manual_seed(9);
    auto got = randn({n}).to_vector();
    Generator s(9);
    std::vector<float> u(static_cast<size_t>(n));
    for (float& v : u) v = s.uniform_float();
    auto block = [&](float* p) {
      for (int j = 0; j < 8; ++j) {
        double r = std::sqrt(-2 * std::log(1 - double(p[j]))), a = 2 * M_PI * double(p[j + 8]);
        p[j] = float(r * std::cos(a));
        p[j + 8] = float(r * std::sin(a));
      }
    };
    for (int64_t i = 0; i + 16 <= n; i += 16) block(&u[size_t(i)]);
    if (n % 16) {
      for (int64_t i = n - 16; i < n; ++i) u[size_t(i)] = s.uniform_float();
      block(&u[size_t(n - 16)]);
    }
    for (size_t i = 0; i < u.size(); ++i) REQUIRE(std::abs(got[i] - u[i]) < 2e-6);
  }
}

TEST_CASE("fewer than 16 normal numbers come in pairs, the second of which the generator keeps") {
  manual_seed(0);
  auto once = randn({6}).to_vector();
  manual_seed(0);
  auto a = randn({1}).to_vector(), b = randn({3}).to_vector(), c = randn({2}).to_vector();
  CHECK(std::vector<float>{a[0], b[0], b[1], b[2], c[0], c[1]} == once);
  randn({1});
  manual_seed(0);  // forgets the kept one
  CHECK(randn({6}).to_vector() == once);
  manual_seed(0);  // f64 takes the same path, so its values are those before rounding
  auto d = randn({6}, {.dtype = Dtype::f64}).to_vector<double>();
  for (size_t i = 0; i < d.size(); ++i) CHECK(float(d[i]) == once[i]);
}

TEST_CASE("mean and deviation") {
  manual_seed(1);
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    Tensor x = empty({4096}, {.dtype = t});
    normal_(x, 3, 0.5);
    double sum = 0, squares = 0;
    for (double v : x.to_vector<double>()) {
      sum += v;
      squares += (v - 3) * (v - 3);
    }
    INFO(to_string(t));
    CHECK(sum / 4096 == doctest::Approx(3).epsilon(0.02));
    CHECK(std::sqrt(squares / 4096) == doctest::Approx(0.5).epsilon(0.05));
  }
  Tensor few = empty({3});
  manual_seed(0);
  normal_(few, 10, 2);
  check_near(few, {10 + 2 * 1.5410, 10 - 2 * 0.2934, 10 - 2 * 2.1788}, 2e-4);
}

TEST_CASE("the numbers do not depend on the layout or the device") {
  set_cpu_devices(2);
  auto draw = [](auto f, TensorOptions o) {
    manual_seed(8);
    return f(o).template to_vector<double>();
  };
  auto u = [](TensorOptions o) { return rand({2, 3, 4, 5}, o); };
  auto n = [](TensorOptions o) { return randn({2, 3, 4, 5}, o); };
  auto i = [](TensorOptions o) { return randint(-50, 50, {2, 3, 4, 5}, o); };
  CHECK(draw(u, {.layout = Layout::channels_last}) == draw(u, {}));
  CHECK(draw(n, {.layout = Layout::channels_last}) == draw(n, {}));
  CHECK(draw(i, {.layout = Layout::channels_last}) == draw(i, {}));
  CHECK(draw(u, {.device = cpu(1)}) == draw(u, {}));
  CHECK(randperm(3, {.dtype = Dtype::i32, .device = cpu(1)}).device() == cpu(1));
  Tensor wide = zeros({4, 6});
  Tensor odd = wide.alias({4, 3}, {6, 2}, 1);  // every second column
  manual_seed(8);
  uniform_(odd);
  manual_seed(8);
  CHECK(odd.to_vector() == rand({4, 3}).to_vector());
  CHECK(wide.to_vector()[0] == 0);
}

TEST_CASE("randint") {
  manual_seed(2);
  auto v = randint(-3, 4, {700}).to_vector<int64_t>();
  std::set<int64_t> seen(v.begin(), v.end());
  CHECK(seen == std::set<int64_t>{-3, -2, -1, 0, 1, 2, 3});
  manual_seed(2);
  Generator g(2);
  const int64_t large = int64_t(1) << 40;
  for (int64_t x : randint(large, {5}).to_vector<int64_t>()) CHECK(x == int64_t(g.random64() % uint64_t(large)));
  for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::boolean}) {
    manual_seed(2);
    Tensor a = randint(0, 2, {20}, {.dtype = t});
    manual_seed(2);
    CHECK(a.dtype() == t);
    CHECK(a.to_vector<int64_t>() == randint(0, 2, {20}).to_vector<int64_t>());
  }
  // f16 has no odd numbers here: the largest below 4096 is 4094.
  for (float x : randint(4090, 4096, {50}, {.dtype = Dtype::f16}).to_vector()) CHECK((x >= 4090 && x < 4096));
  CHECK_THROWS_WITH_AS(randint(3, 3, {1}), "[randint] an empty range from 3 to 3", Error);
  CHECK_THROWS_WITH_AS(randint(0, 300, {1}, {.dtype = Dtype::u8}), "[randint] 0 to 300 does not fit u8", Error);
}

TEST_CASE("random numbers in place: errors, versions, empty tensors") {
  Tensor x = zeros({3}), i = zeros({3}, {.dtype = Dtype::i64});
  CHECK_THROWS_WITH_AS(uniform_(x, 2, 1), "[uniform_] from 2 to 1 is no range of f32", Error);
  CHECK_THROWS_WITH_AS(normal_(x, 0, -1), "[normal_] std is -1, and may not be negative", Error);
  CHECK_THROWS_WITH_AS(uniform_(i), "[uniform_] takes floating tensors, got i64", DtypeError);
  CHECK_THROWS_AS(rand({2}, {.dtype = Dtype::i32}), DtypeError);
  auto version = x.storage()->version.load();
  uniform_(x);
  CHECK(x.storage()->version == version + 1);
  Tensor leaf = zeros({2}, {.requires_grad = true});
  CHECK_THROWS_WITH_AS(normal_(leaf), doctest::Contains("requires grad"), Error);
  {
    NoGradGuard no_grad;
    normal_(leaf);
  }
  CHECK(rand({2}, {.requires_grad = true}).requires_grad());
  manual_seed(4);
  rand({0, 3});
  randn({0});
  randint(5, {0});
  CHECK(default_generator().random() == Generator(4).random());
}
