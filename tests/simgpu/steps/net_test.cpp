// A training step of the Net.
#include "apps/models/net.h"
#include "tests/support/op_case.h"
#include "tests/support/test_device.h"

#include <tandem/tandem.h>

#include <doctest/doctest.h>
#include <simgpu/simgpu.h>

using namespace tandem;
using namespace tandem::test;

namespace {

// Counted op by op in docs/architecture.md, "What a step moves".
constexpr double kBytesByHand = 887e6;

struct Training {
  models::Net net;
  nn::SGD sgd{net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4}};
  Tensor images, labels;

  Training(const Tensor& x, const Tensor& y) : images(x.to(current_device())), labels(y.to(current_device())) {}
  Tensor step() {
    sgd.zero_grad();
    Tensor loss = cross_entropy(net(images), labels);
    loss.backward();
    sgd.step();
    return loss;
  }
};

Tensor some_images(int64_t n) {
  DeviceGuard here(cpu());
  return random_tensor({n, 3, 32, 32}, {.layout = Layout::channels_last});
}
Tensor some_labels(int64_t n) {
  DeviceGuard here(cpu());
  std::vector<int64_t> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(i * 7 % 10);
  return from_vector(v, {n});
}

std::unique_ptr<Training> training_on(Device d, const Tensor& images, const Tensor& labels) {
  DeviceGuard here(d);
  manual_seed(3);
  return std::make_unique<Training>(images, labels);
}

}  // namespace

TEST_CASE("steps of the Net on a GPU are those on a CPU") {
  const Tensor images = some_images(4), labels = some_labels(4);
  auto gpu = training_on(test_device(), images, labels), host = training_on(cpu(), images, labels);
  for (int i = 0; i < 3; ++i) CHECK(gpu->step().item() == doctest::Approx(host->step().item()).epsilon(1e-5));
  const auto a = gpu->net.named_parameters(), b = host->net.named_parameters();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].first);
    CHECK(a[i].second.device() == test_device());
    CHECK(max_difference(a[i].second, b[i].second) < 1e-5);
    CHECK(max_difference(a[i].second.grad(), b[i].second.grad()) < 1e-5);
  }
}

TEST_CASE("a warm step of the Net takes at most 36 launches, and nothing else of the device") {
  auto training = training_on(test_device(), some_images(128), some_labels(128));
  for (int i = 0; i < 2; ++i) training->step().item();
  simgpu_reset_counts();
  const Tensor loss = training->step();
  simgpu_counts c;
  simgpu_get_counts(&c);
  CHECK(c.kernels + c.library_calls + c.device_copies + c.fills <= 36);
  CHECK(c.allocations == 0);
  CHECK(c.host_copies == 0);
  CHECK(c.host_waits == 0);
  loss.item();
  if (!simgpu_is_checked()) return;  // only there are kernels' bytes known
  simgpu_get_counts(&c);
  const double moved = double(c.bytes_read + c.bytes_written);
  MESSAGE("moved ", moved / 1e6, " MB");
  CHECK(moved <= 1.3 * kBytesByHand);
}
