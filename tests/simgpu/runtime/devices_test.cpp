// Several devices, several threads of the host.
#include <doctest/doctest.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <atomic>
#include <thread>

using namespace simgpu_test;

TEST_CASE("each thread has a current device, first device 0") {
  CHECK_CUDA(cudaSetDevice(1));
  int here = -1, there = -1;
  std::thread([&] { cudaGetDevice(&there); }).join();
  CHECK_CUDA(cudaGetDevice(&here));
  CHECK(here == 1);
  CHECK(there == 0);
  CHECK(cudaSetDevice(16) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK_CUDA(cudaSetDevice(0));
}

TEST_CASE("devices are like each other, and not the same") {
  cudaDeviceProp a{}, b{};
  int count = 0, major = 0;
  CHECK_CUDA(cudaGetDeviceCount(&count));
  CHECK(count == 2);
  CHECK_CUDA(cudaGetDeviceProperties(&a, 0));
  CHECK_CUDA(cudaGetDeviceProperties(&b, 1));
  CHECK(std::string(a.name) == b.name);
  CHECK(std::memcmp(&a.uuid, &b.uuid, sizeof a.uuid) != 0);
  CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 1));
  CHECK(major == b.major);
}

TEST_CASE("a launch is of the current device") {
  const TestStream there(1);
  CHECK_CUDA(cudaSetDevice(1));
  const DeviceValues<float> x(ramp<float>(100)), y(100);
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_THROWS_WITH(samples::affine(there, y, x, 1, 0, 100), doctest::Contains("cudaErrorInvalidResourceHandle"));
  CHECK_CUDA(cudaSetDevice(1));
  samples::affine(there, y, x, 1, 0, 100);
  CHECK(y.values(there) == ramp<float>(100));
  CHECK_CUDA(cudaSetDevice(0));
}

TEST_CASE("copies between devices, and kernels that use the other's memory") {
  const TestStream here(0), there(1);
  const DeviceValues<float> far(ramp<float>(100));
  CHECK_CUDA(cudaSetDevice(0));
  const DeviceValues<float> near(100), sum(100);
  CHECK_CUDA(cudaMemcpyPeerAsync(near, 0, far, 1, near.bytes(), here));
  CHECK(near.values(here) == ramp<float>(100));

  int can = 0;
  CHECK_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  REQUIRE(can == 1);
  CHECK_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  cudaGetLastError();
  samples::affine(here, sum, far, 2, 0, 100);
  CHECK(sum.values(here) == ramp<float>(100, 0, 2));
  CHECK_CUDA(cudaDeviceDisablePeerAccess(1));
}

TEST_CASE("threads work side by side, each on a device") {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const TestStream s(t % 2);
      const DeviceValues<float> x(ramp<float>(1000, float(t))), y(1000);
      for (int turn = 0; turn < 10; ++turn) samples::affine(s, y, x, 2, 0, 1000);
      right += y.values(s) == ramp<float>(1000, 2.0f * float(t), 2);
    });
  for (auto& t : threads) t.join();
  CHECK(right == 4);
}

TEST_CASE("one thread queues, another waits") {
  const TestStream s;
  const TestEvent event;
  const DeviceValues<float> x(ramp<float>(1000)), y(1000);
  std::thread([&] {
    samples::affine(s, y, x, 2, 0, 1000);
    CHECK_CUDA(cudaEventRecord(event, s));
  }).join();
  CHECK_CUDA(cudaEventSynchronize(event));
  CHECK(y.values(s) == ramp<float>(1000, 0, 2));
}
