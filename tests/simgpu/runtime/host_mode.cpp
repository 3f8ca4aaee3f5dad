// simgpu-host-mode [race]: threads that queue work, for the thread sanitizer; kernels are skipped. With `race` they
// also share a counter without a lock, which is to be found: the simulator's own locks must not hide it.
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <cstring>
#include <thread>
#include <vector>

using namespace simgpu_test;

namespace {

constexpr size_t kN = 1000;
int shared_turns = 0;

void work(int device, bool race) {
  const TestStream s(device);
  const TestEvent event;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN);
  const HostValues<float> back(kN);
  for (int turn = 0; turn < 20; ++turn) {
    samples::affine(s, y, x, 2, 1, kN);
    CHECK_CUDA(cudaMemcpyAsync(back.data(), y, back.bytes(), cudaMemcpyDeviceToHost, s));
    CHECK_CUDA(cudaEventRecord(event, s));
    while (cudaEventQuery(event) == cudaErrorNotReady) std::this_thread::yield();
    if (race) ++shared_turns;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool race = argc > 1 && std::strcmp(argv[1], "race") == 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t % 2, race);
  for (auto& t : threads) t.join();
}
