#include "apps/cifar10/suggest.h"

#include <algorithm>

namespace tandem::cifar10 {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = up;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(const std::string& wrong, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = std::max<size_t>(2, wrong.size() / 3) + 1;
  for (const std::string& candidate : candidates)
    if (size_t d = edit_distance(wrong, candidate); d < least) {
      least = d;
      best = candidate;
    }
  return best;
}

}  // namespace tandem::cifar10
