/// What the tests of DataParallel share: a small net, batches, comparisons.
#pragma once
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"
#include "tests/support/text.h"

#include <tandem/core/generator.h>
#include <tandem/nn/conv2d.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/loss.h>
#include <tandem/nn/sgd.h>
#include <tandem/ops/max_pool2d.h>
#include <tandem/ops/relu.h>
#include <tandem/ops/view.h>
#include <tandem/parallel/data_parallel.h>

#include <doctest/doctest.h>

#include <cmath>

namespace tandem::test {

// Small buckets, so that there are several.
inline DataParallel::Options small_buckets() { return {.threads = 1, .first_bucket_bytes = 64, .bucket_bytes = 256}; }

struct SmallNet : nn::Module {
  nn::Conv2d conv{3, 8, {.kernel = 3, .padding = 1}};
  nn::Linear fc1{8 * 4 * 4, 16}, fc2{16, 5};
  SmallNet() {
    add("conv", conv);
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(flatten(max_pool2d(relu(conv(x)), 2), 1)))); }
};

template <class Net, class... Args>
std::unique_ptr<Net> make(Dtype dtype = Dtype::f32, const Args&... args) {
  manual_seed(3);
  auto net = std::make_unique<Net>(args...);
  net->to(dtype);
  return net;
}

struct Batch {
  Tensor x, y;
  Batch(int64_t n, Dtype dtype = Dtype::f32) : x(random_tensor({n, 3, 8, 8}, {.dtype = dtype})) {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < n; ++i) labels.push_back(i * 7 % 5);
    y = from_vector(labels, {n});
  }
};

// The largest difference, relative to the largest magnitude.
inline double relative_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (double v : b.to_vector<double>()) largest = std::max(largest, std::abs(v));
  return max_difference(a, b) / (largest > 0 ? largest : 1);
}

inline void check_same(const nn::Module& a, const nn::Module& b, double tolerance) {
  const nn::NamedTensors of_a = a.named_parameters(), of_b = b.named_parameters();
  REQUIRE(of_a.size() == of_b.size());
  for (size_t i = 0; i < of_a.size(); ++i) {
    CAPTURE(of_a[i].first);
    CHECK(relative_difference(of_a[i].second, of_b[i].second) <= tolerance);
    REQUIRE(of_a[i].second.grad().defined() == of_b[i].second.grad().defined());
    if (of_b[i].second.grad()) CHECK(relative_difference(of_a[i].second.grad(), of_b[i].second.grad()) <= tolerance);
  }
}

inline constexpr double kF64 = 1e-12, kF32 = 1e-5;

}  // namespace tandem::test
