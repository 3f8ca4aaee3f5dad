// Kernels compute what they should: built-in variables, barriers, warps, shared memory, atomics.
#include <doctest/doctest.h>
#include <simgpu/simgpu.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/faults.h>
#include <tests/simgpu/samples/samples.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace simgpu_test;

TEST_CASE("kernels over elements") {
  TestStream s;
  const auto x = ramp<float>(1000, -3.0f, 0.25f);
  DeviceValues<float> dx(x), dy(x.size());
  for (const auto f : {samples::affine, samples::affine_packed}) {
    f(s, dy, dx, 2.0f, 1.0f, int64_t(x.size()));
    const auto y = dy.values(s);
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == 2.0f * x[i] + 1.0f);
  }
}

TEST_CASE("threads know their place in three dimensions") {
  TestStream s;
  const dim3 blocks(3, 2, 2), threads(4, 3, 2);
  DeviceValues<int> out(12 * 24);
  samples::coordinates(s, out, blocks, threads);
  auto found = out.values(s);
  std::vector<int> expected;
  for (int z = 0; z < 4; ++z)
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 12; ++x) expected.push_back(x + 100 * y + 10000 * z);
  std::sort(found.begin(), found.end());
  CHECK(found == expected);
}

TEST_CASE("sums by shuffles, shared memory and atomics") {
  TestStream s;
  std::vector<float> x(10000);  // whose sum is exact in any order
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.5f * float(i % 401) - 99.0f;
  const float expected = std::accumulate(x.begin(), x.end(), 0.0f);
  DeviceValues<float> dx(x), sum(std::vector<float>{1.0f}), by_last(1), partial(7);
  DeviceValues<unsigned> ticket(std::vector<unsigned>{0});
  samples::sum(s, sum, dx, int64_t(x.size()));
  CHECK(sum.values(s)[0] == expected + 1);
  for (int turn = 0; turn < 3; ++turn) {
    samples::sum_by_last_block(s, by_last, partial, ticket, dx, int64_t(x.size()), 7);
    CHECK(by_last.values(s)[0] == expected);
  }
}

TEST_CASE("sums of rows in dynamic shared memory, also more than a kernel gets unasked") {
  TestStream s;
  const auto x = ramp<float>(15 * 100);
  DeviceValues<float> dx(x), sums(15);
  samples::row_sums(s, sums, dx, 15, 100);
  const auto found = sums.values(s);
  for (size_t r = 0; r < 15; ++r) CHECK(found[r] == std::accumulate(&x[r * 100], &x[r * 100] + 100, 0.0f));
}

TEST_CASE("tiles in static shared memory") {
  TestStream s;
  const int rows = 37, columns = 53;
  const auto x = ramp<float>(size_t(rows * columns));
  DeviceValues<float> dx(x), dy(x.size());
  samples::transpose(s, dy, dx, rows, columns);
  const auto y = dy.values(s);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) REQUIRE(y[size_t(c * rows + r)] == x[size_t(r * columns + c)]);
}

TEST_CASE("votes of a block, and shuffles in groups of lanes") {
  TestStream s;
  DeviceValues<float> x(ramp<float>(200, -49.0f));
  DeviceValues<int> count(1);
  samples::count_positive(s, count, x, 200);
  CHECK(count.values(s)[0] == 150);

  DeviceValues<int> ones(std::vector<int>(64, 1)), scanned(64);
  samples::scan_groups(s, scanned, ones, 64, 8);
  const auto y = scanned.values(s);
  for (int i = 0; i < 64; ++i) CHECK(y[size_t(i)] == i % 8 + 1);
}

TEST_CASE("atomic additions from many blocks") {
  TestStream s;
  std::vector<int> x(5000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = int(i * i % 10);
  DeviceValues<int> dx(x), counts(std::vector<int>(10, 0));
  samples::histogram(s, counts, dx, int(x.size()));
  const auto found = counts.values(s);
  for (int d = 0; d < 10; ++d) CHECK(found[size_t(d)] == std::count(x.begin(), x.end(), d));
}

TEST_CASE("shared memory holds NaN when a block begins, whoever used it before") {
  if (simgpu_is_checked()) return;  // which ends the process where such memory is read
  TestStream s;
  DeviceValues<float> x(ramp<float>(37 * 53)), y(37 * 53), seen(32);
  for (int turn = 0; turn < 6; ++turn) {
    samples::transpose(s, y, x, 37, 53);
    samples::uninitialised_shared(s, seen);
    for (const float v : seen.values(s)) CHECK(std::isnan(v));
  }
}
