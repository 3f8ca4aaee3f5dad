#include <tandem/data/normalize.h>

namespace tandem::data {
namespace {

std::string list(const std::vector<double>& v) {
  std::string s = "(";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + message(v[i]);
  return s + ")";
}

}  // namespace

Normalize::Normalize(std::vector<double> mean, std::vector<double> std) : mean_(std::move(mean)), std_(std::move(std)) {
  check(!mean_.empty() && mean_.size() == std_.size(), "[Normalize] ", mean_.size(), " means and ", std_.size(),
        " deviations");
  for (double s : std_) check(float(s) != 0, "[Normalize] a deviation of 0");
}

std::string Normalize::name() const { return message("Normalize(", list(mean_), ", ", list(std_), ")"); }

bool Normalize::join(AugmentOptions& pass, int) const {
  if (!pass.mean.empty() || pass.cutout) return false;
  pass.mean = mean_;
  pass.std = std_;
  return true;
}

}  // namespace tandem::data
