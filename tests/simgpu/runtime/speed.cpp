// simgpu-speed: what the simulator takes for the usual kernels, in time. Not a test: the machine decides.
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

using namespace simgpu_test;

namespace {

constexpr int kTurns = 30;

// The best of some turns, by the clock on the wall and of the processor: others use the machine too.
template <class F>
void report(const char* name, F&& work) {
  double wall_ms = 1e9, processor_ms = 1e9;
  for (int i = 0; i < kTurns; ++i) {
    const auto wall = std::chrono::steady_clock::now();
    const std::clock_t processor = std::clock();
    work();
    processor_ms = std::min(processor_ms, 1e3 * double(std::clock() - processor) / CLOCKS_PER_SEC);
    wall_ms =
        std::min(wall_ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - wall).count());
  }
  std::printf("%-60s %8.3f %8.3f\n", name, wall_ms, processor_ms);
}

}  // namespace

int main() {
  std::printf("%-60s %8s %8s\n", "milliseconds", "wall", "CPU");
  const TestStream s;
  constexpr int64_t n = 1 << 20;
  const DeviceValues<float> x(ramp<float>(n)), y(n);
  report("1 Mi elements, one a thread", [&] {
    samples::affine(s, y, x, 2, 1, n);
    s.wait();
  });
  report("1 Mi elements, four a thread", [&] {
    samples::affine_packed(s, y, x, 2, 1, n);
    s.wait();
  });
  for (const int barriers : {0, 1, 9}) {
    char name[80];
    std::snprintf(name, sizeof name, "1000 blocks of 256 threads, %d barriers", barriers);
    report(name, [&] {
      samples::barriers(s, y, 1000, 256, barriers);
      s.wait();
    });
  }
  report("1000 shuffles of a warp", [&] {
    samples::shuffles(s, y, 1, 32, 1000);
    s.wait();
  });
  report("sum of 1 Mi elements", [&] {
    samples::sum(s, y, x, n);
    s.wait();
  });
  report("a launch, and the wait for it", [&] {
    samples::affine(s, y, x, 2, 1, 1);
    s.wait();
  });
  report("100 launches, and the wait for them", [&] {
    for (int i = 0; i < 100; ++i) samples::affine(s, y, x, 2, 1, 1);
    s.wait();
  });
  report("cudaMallocAsync and cudaFreeAsync of 4 KiB, and the wait", [&] {
    void* p = nullptr;
    CHECK_CUDA(cudaMallocAsync(&p, 4096, s));
    CHECK_CUDA(cudaFreeAsync(p, s));
    s.wait();
  });
}
