#include "tests/golden/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tandem::golden {
namespace {

std::string digits(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

std::string integer_difference(const Tensor& got, const Tensor& want) {
  auto a = got.to_vector<int64_t>(), b = want.to_vector<int64_t>();
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return message("element ", i, " is ", a[i], ", not ", b[i]);
  return {};
}

}  // namespace

std::string difference(const std::vector<double>& got, const std::vector<double>& want, Tolerance tolerance) {
  if (got.size() != want.size()) return message(got.size(), " values, not ", want.size());
  double largest = 0;
  for (double v : want)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double floor = tolerance.absolute + tolerance.of_largest * largest;
  double worst = 0;  // how far the difference is beyond what is allowed
  size_t at = 0, outside = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    double excess = std::abs(got[i] - want[i]) - floor - tolerance.relative * std::abs(want[i]);
    if (std::isnan(excess)) excess = INFINITY;
    if (excess <= 0) continue;
    ++outside;
    if (excess > worst) {
      worst = excess;
      at = i;
    }
  }
  if (outside == 0) return {};
  return message(outside, " of ", got.size(), " values differ, worst at element ", at, ": ", digits(got[at]), ", not ",
                 digits(want[at]), " (difference ", digits(std::abs(got[at] - want[at])), ")");
}

std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (!(got.shape() == want.shape())) return message("shape ", got.shape(), ", not ", want.shape());
  if (is_floating(got.dtype()) != is_floating(want.dtype())) return message("is ", got.dtype(), ", not ", want.dtype());
  if (!is_floating(want.dtype())) return integer_difference(got, want);
  return difference(got.to_vector<double>(), want.to_vector<double>(), tolerance);
}

}  // namespace tandem::golden
