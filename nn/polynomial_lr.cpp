#include <tandem/nn/polynomial_lr.h>

#include <cmath>

namespace tandem::nn {

PolynomialLR::PolynomialLR(Optimizer& optimizer, Options options) : LRScheduler(optimizer), options_(options) {
  check(options.total_iters > 0, "[PolynomialLR] total_iters is ", options.total_iters, ", and has to be positive");
  begin();
}

double PolynomialLR::next_lr(size_t, double lr) const {
  const auto t = last_epoch(), total = options_.total_iters;
  if (t == 0 || t > total) return lr;
  auto left = [&](int64_t at) { return 1 - double(at) / double(total); };
  return lr * std::pow(left(t) / left(t - 1), options_.power);
}

}  // namespace tandem::nn
