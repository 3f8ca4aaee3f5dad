#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/sum_to.h>
#include <tandem/ops/view.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace tandem;
using namespace tandem::test;

namespace {

// In long double, element by element.
std::vector<double> plain_sum(const Tensor& x, const Dims& shape) {
  std::vector<long double> sums(size_t(shape.numel()), 0);
  auto values = x.to_vector<double>();
  const int skip = x.dim() - shape.size();
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = x.dim(); d--;) {
      int64_t k = rest % x.shape()[d];
      rest /= x.shape()[d];
      if (d < skip) continue;
      if (shape[d - skip] != 1) at += k * step;
      step *= shape[d - skip];
    }
    sums[size_t(at)] += values[size_t(i)];
  }
  return {sums.begin(), sums.end()};
}

void check_sum(const Dims& from, const Dims& to) {
  INFO(to_string(from), " to ", to_string(to));
  for (Dtype t : {Dtype::f64, Dtype::f32, Dtype::bf16}) {
    Tensor x = random_tensor(from, {.dtype = t});
    Tensor y = sum_to(x, to);
    REQUIRE(y.shape() == to);
    auto want = plain_sum(x, to), got = y.to_vector<double>();
    const double eps = t == Dtype::f64 ? 1e-13 : t == Dtype::f32 ? 1e-6 : 1e-2;
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= eps * (1 + std::abs(want[i])));
    double largest = 0;
    for (double v : want) largest = std::max(largest, std::abs(v));
    set_num_threads(2);
    CHECK(same_bits(sum_to(x, to), y));
    set_num_threads(1);
    // Of another layout: the same bits on the CPU.
    auto check_same = [&](const Tensor& other) {
      if (on_cpu()) CHECK(same_bits(other, y));
      CHECK(max_difference(other, y) <= eps * (1 + largest));
    };
    if (from.size() == 4) check_same(sum_to(as_layout(x, Layout::channels_last), to));
    check_same(sum_to(x.transpose(0, -1).contiguous().transpose(0, -1), to));

    Tensor window = full(to, NAN, {.dtype = t});
    sum_to_forward(x.device(), Out{window, 0}, x);
    CHECK(same_bits(window, y));
    sum_to_forward(x.device(), Out{window, 1}, x);
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(std::abs(window.to_vector<double>()[i] - 2 * got[i]) <= eps * (1 + std::abs(want[i])));
  }
}

}  // namespace

TEST_CASE("sum_to undoes broadcasts") {
  check_sum({30, 2}, {2});
  check_sum({30, 2}, {1, 2});
  check_sum({30, 2}, {30, 1});
  check_sum({7, 300}, {300});
  check_sum({2000, 10}, {10});
  check_sum({2000, 10}, {2000, 1});
  check_sum({3, 20000}, {3, 1});
  check_sum({9, 300, 11}, {300, 1});
  check_sum({9, 300, 11}, {9, 1, 11});
  check_sum({9, 300, 11}, {1, 300, 1});
  check_sum({2, 3, 4, 5}, {});
  check_sum({5, 6, 17, 9}, {1});
  check_sum({5, 6, 17, 9}, {6, 1, 1});
  check_sum({5, 6, 17, 9}, {5, 6, 1, 1});
  check_sum({5, 6, 17, 9}, {5, 1, 17, 9});
  check_sum({5, 6, 17, 9}, {5, 1, 1, 9});
  check_sum({5, 6, 17, 9}, {5, 1, 17, 1});
  check_sum({2, 1, 2, 1, 2, 1, 2, 2}, {2, 1, 1, 1, 2, 1, 1, 2});
  check_sum({3, 1}, {3, 1});
}

TEST_CASE("sum_to of nothing is zero, and to its own shape the tensor itself") {
  CHECK(sum_to(zeros({0, 3}), {3}).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(sum_to(zeros({0, 3}), {0, 3}).numel() == 0);
  Tensor x = ones({2, 3});
  CHECK(sum_to(x, {2, 3}).is_same(x));
  CHECK_THROWS_AS(sum_to(x, {2}), ShapeError);
  CHECK_THROWS_AS(sum_to(arange(0, 3), {1}), DtypeError);
}
