// Memory of devices and of the host: what a new allocation holds, what may be copied, how streams allocate.
#include <doctest/doctest.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <cmath>
#include <cstdint>

using namespace simgpu_test;

TEST_CASE("new memory holds NaN, and that of devices is aligned to 256 bytes and not more") {
  const HostValues<float> host(100);
  CHECK(std::isnan(host.data()[99]));
  bool odd = false;
  std::vector<void*> all;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back();
    CHECK_CUDA(cudaMalloc(&all.back(), 4 * 100));
    CHECK(reinterpret_cast<uintptr_t>(all.back()) % 256 == 0);
    odd |= reinterpret_cast<uintptr_t>(all.back()) % 512 != 0;
  }
  CHECK(odd);
  for (void* p : all) CHECK_CUDA(cudaFree(p));
}

TEST_CASE("nothing is allocated for nothing, and freed") {
  void* p = &p;
  CHECK_CUDA(cudaMalloc(&p, 0));
  CHECK(p == nullptr);
  CHECK_CUDA(cudaFree(nullptr));
  CHECK_CUDA(cudaFreeHost(nullptr));
}

TEST_CASE("memory ends") {
  size_t free = 0, total = 0, less = 0;
  CHECK_CUDA(cudaMemGetInfo(&free, &total));
  void *p = nullptr, *q = nullptr;
  CHECK(cudaMalloc(&p, total + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK_CUDA(cudaMalloc(&q, 1 << 20));
  CHECK_CUDA(cudaMemGetInfo(&less, &total));
  CHECK(free - less == 1 << 20);
  CHECK_CUDA(cudaFree(q));
  CHECK_CUDA(cudaMemGetInfo(&less, &total));
  CHECK(free == less);
}

TEST_CASE("copies and fills") {
  const TestStream s;
  const HostValues<int> a(ramp<int>(1000)), b(1000);
  const DeviceValues<int> x(1000), y(1000);
  CHECK_CUDA(cudaMemcpyAsync(x, a.data(), a.bytes(), cudaMemcpyHostToDevice, s));
  CHECK_CUDA(cudaMemsetAsync(y, 0, y.bytes(), s));
  CHECK_CUDA(cudaMemcpyAsync(y + 100, x + 200, 300 * sizeof(int), cudaMemcpyDeviceToDevice, s));
  CHECK_CUDA(cudaMemcpyAsync(b.data(), y, b.bytes(), cudaMemcpyDefault, s));
  s.wait();
  for (int i = 0; i < 1000; ++i) REQUIRE(b.data()[i] == (i >= 100 && i < 400 ? i + 100 : 0));
  CHECK(cudaMemcpyAsync(y, x, 4, cudaMemcpyDeviceToHost, s) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpyAsync(b.data(), a.data(), 4, cudaMemcpyDefault, s) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("copies of bytes at any place, what wasn't written among them") {
  const TestStream s;
  const HostValues<unsigned char> a(ramp<unsigned char>(64)), b(64);
  const DeviceValues<unsigned char> x(64), y(64);
  CHECK_CUDA(cudaMemcpyAsync(x + 1, a.data(), 30, cudaMemcpyHostToDevice, s));
  CHECK_CUDA(cudaMemcpyAsync(y, x, 64, cudaMemcpyDeviceToDevice, s));
  CHECK_CUDA(cudaMemcpyAsync(y + 32, x + 3, 10, cudaMemcpyDeviceToDevice, s));
  CHECK_CUDA(cudaMemcpyAsync(b.data(), y + 1, 30, cudaMemcpyDeviceToHost, s));
  CHECK_CUDA(cudaMemcpyAsync(b.data() + 32, y + 32, 10, cudaMemcpyDeviceToHost, s));
  s.wait();
  for (int i = 0; i < 30; ++i) CHECK(b.data()[i] == i);
  for (int i = 0; i < 10; ++i) CHECK(b.data()[32 + i] == i + 2);
}

TEST_CASE("memory in the order of a stream") {
  const TestStream s, other;
  const TestEvent used;
  const DeviceValues<float> x(ramp<float>(256)), y(256);
  for (int turn = 0; turn < 5; ++turn) {
    float *p = nullptr, *q = nullptr;
    CHECK_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&p), 1024, s));
    CHECK_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&q), 1024, s));
    samples::affine(s, p, x, 2, 0, 256);
    samples::affine(s, q, p, 1, 1, 256);
    CHECK_CUDA(cudaFreeAsync(p, s));
    CHECK_CUDA(cudaEventRecord(used, s));
    CHECK_CUDA(cudaStreamWaitEvent(other, used, 0));
    samples::affine(other, y, q, 1, 1, 256);
    CHECK_CUDA(cudaFreeAsync(q, other));
  }
  const auto found = y.values(other);
  for (int i = 0; i < 256; ++i) REQUIRE(found[size_t(i)] == 2.0f * float(i) + 2);
}

TEST_CASE("what a pointer points to") {
  const DeviceValues<float> x(10);
  const HostValues<float> y(10);
  float z = 0;
  cudaPointerAttributes a{};
  CHECK_CUDA(cudaPointerGetAttributes(&a, x));
  CHECK(a.type == cudaMemoryTypeDevice);
  CHECK(a.device == 0);
  CHECK_CUDA(cudaPointerGetAttributes(&a, y.data()));
  CHECK(a.type == cudaMemoryTypeHost);
  CHECK_CUDA(cudaPointerGetAttributes(&a, &z));
  CHECK(a.type == cudaMemoryTypeUnregistered);
}
