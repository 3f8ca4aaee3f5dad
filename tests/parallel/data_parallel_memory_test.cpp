// What a step takes of each device's memory: replicas need the same, and the first device only has in addition what the
// caller keeps there.
#include "tests/parallel/data_parallel_support.h"

#include <tandem/core/pool.h>

#include <algorithm>

using namespace tandem;
using namespace tandem::test;

namespace {

struct Wide : nn::Module {
  nn::Linear first, last;
  explicit Wide(int64_t outputs) : first(192, 256), last(256, outputs) {
    add("first", first);
    add("last", last);
  }
  Tensor forward(const Tensor& x) override { return last(relu(first(flatten(x, 1)))); }
};

size_t bytes_of(const Tensor& t) { return size_t(t.numel()) * size_of(t.dtype()); }

size_t state_bytes(nn::Optimizer& optimizer) {
  size_t bytes = 0;
  for (auto& [name, t] : optimizer.state_dict())
    if (t.dim() > 0) bytes += bytes_of(t);
  return bytes;
}

enum class How { lines, step };

// The peak of each device in warm steps, with the parameters that it reads.
std::vector<size_t> peaks_of(How how, int replicas, int64_t outputs, int64_t samples, double momentum,
                             size_t* of_optimizer = nullptr) {
  auto net = make<Wide>(Dtype::f32, outputs);
  DataParallel dp(*net, test_devices(replicas), {.threads = 1});
  nn::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = momentum});
  nn::CrossEntropyLoss criterion;
  Batch b(samples);
  auto train = [&] {
    optimizer.zero_grad();
    if (how == How::step) {
      dp.step(b.x, b.y, criterion);
    } else {
      Tensor out = dp(b.x);
      Tensor loss = criterion(out, b.y);
      loss.backward();
    }
    optimizer.step();
  };
  train();
  for (Device d : dp.devices()) reset_peak_memory_stats(d);
  train();
  train();
  if (of_optimizer) *of_optimizer = state_bytes(optimizer);
  std::vector<size_t> peaks;
  for (int r = 0; r < replicas; ++r) peaks.push_back(max_memory_allocated(test_device(r)) + dp.shared_bytes(r));
  return peaks;
}

bool within_a_tenth(const std::vector<size_t>& bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  return double(*most) <= 1.1 * double(*least);
}

}  // namespace

TEST_CASE("every device needs the same memory, parameters counted where they are read") {
  for (How how : {How::lines, How::step})
    for (int n : {2, 3, 4}) {
      CAPTURE(int(how));
      CAPTURE(n);
      const auto peaks = peaks_of(how, n, 10, 12 * n, 0);
      CAPTURE(peaks[0]);
      CAPTURE(peaks[1]);
      CHECK(within_a_tenth(peaks));
    }
}

TEST_CASE("an optimizer's state is on the first device, and all that sets it apart") {
  size_t state = 0;
  auto peaks = peaks_of(How::step, 2, 10, 24, 0.9, &state);
  CHECK(state == 4 * (192 * 256 + 256 + 256 * 10 + 10));
  CHECK_FALSE(within_a_tenth(peaks));
  peaks[0] -= state;
  CHECK(within_a_tenth(peaks));
}

TEST_CASE("outputs of the whole batch: step leaves them where they are, the caller's loss wants them together") {
  constexpr int64_t kOutputs = 4096, kSamples = 512;
  const size_t outputs = size_t(kSamples * kOutputs) * sizeof(float);
  CHECK(within_a_tenth(peaks_of(How::step, 2, kOutputs, kSamples, 0)));
  const auto peaks = peaks_of(How::lines, 2, kOutputs, kSamples, 0);
  CHECK(peaks[0] > peaks[1] + outputs);
}

TEST_CASE("CPUs other than the first read its parameters; buffers are everyone's own" * cpu_only()) {
  auto net = make<Wide>(Dtype::f64, int64_t(10));
  size_t bytes = 0;
  for (auto& [name, p] : net->named_parameters()) bytes += bytes_of(p);
  DataParallel dp(*net, test_devices(2));
  CHECK(dp.shared_bytes(0) == 0);
  CHECK(dp.shared_bytes(1) == bytes);
  CHECK_THROWS_AS((void)dp.shared_bytes(2), Error);
}
