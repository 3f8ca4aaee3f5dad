// Streams and events: what is ordered is, what is not may come in any order, and questions get answers that end.
#include <doctest/doctest.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <thread>

using namespace simgpu_test;

namespace {

constexpr int kN = 4096;

std::vector<float> affine(const std::vector<float>& x, float a, float b) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = a * x[i] + b;
  return y;
}

}  // namespace

TEST_CASE("work of a stream runs in its order") {
  const TestStream s;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN);
  samples::affine(s, y, x, 1, 1, kN);
  for (int i = 0; i < 9; ++i) samples::affine(s, y, y, 2, 1, kN);
  CHECK(y.values(s) == affine(ramp<float>(kN), 512, 512 + 511));
}

TEST_CASE("an event orders two streams") {
  const TestStream first, second;
  const TestEvent written, read;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN), z(kN);
  for (int turn = 0; turn < 3; ++turn) {
    samples::affine(first, y, x, float(turn + 1), 0, kN);
    CHECK_CUDA(cudaEventRecord(written, first));
    CHECK_CUDA(cudaStreamWaitEvent(second, written, 0));
    samples::affine(second, z, y, 1, 1, kN);
    CHECK_CUDA(cudaEventRecord(read, second));
    CHECK_CUDA(cudaStreamWaitEvent(first, read, 0));
  }
  CHECK(z.values(second) == affine(ramp<float>(kN), 3, 1));
}

TEST_CASE("an event that was never recorded holds nobody up") {
  const TestStream s;
  const TestEvent event;
  CHECK_CUDA(cudaStreamWaitEvent(s, event, 0));
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK_CUDA(cudaEventSynchronize(event));
  s.wait();
}

TEST_CASE("a stream waits for the event as it was recorded when asked") {
  const TestStream first, second;
  const TestEvent event;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN), z(kN);
  samples::affine(first, y, x, 2, 0, kN);
  CHECK_CUDA(cudaEventRecord(event, first));
  CHECK_CUDA(cudaStreamWaitEvent(second, event, 0));
  CHECK_CUDA(cudaEventRecord(event, first));  // another recording, which second doesn't wait for
  samples::affine(second, z, y, 1, 0, kN);
  CHECK(z.values(second) == affine(ramp<float>(kN), 2, 0));
  first.wait();
}

TEST_CASE("loops that ask for a stream or an event end") {
  const TestStream s;
  const TestEvent event;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN);
  for (int i = 0; i < 5; ++i) samples::affine(s, y, x, 2, 1, kN);
  CHECK_CUDA(cudaEventRecord(event, s));
  samples::affine(s, y, x, 3, 1, kN);
  int questions = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady && questions < 100) ++questions;
  CHECK(questions < 10);
  while (cudaStreamQuery(s) == cudaErrorNotReady && questions < 100) ++questions;
  CHECK(questions < 20);
  CHECK(cudaGetLastError() == cudaSuccess);  // not being ready is no error
  CHECK(y.values(s) == affine(ramp<float>(kN), 3, 1));
}

TEST_CASE("waiting for an event leaves what comes after it to later") {
  const TestStream s;
  const TestEvent event;
  const HostValues<float> x(ramp<float>(kN)), y(kN);
  const DeviceValues<float> dx(kN);
  CHECK_CUDA(cudaMemcpyAsync(dx, x.data(), x.bytes(), cudaMemcpyHostToDevice, s));
  CHECK_CUDA(cudaEventRecord(event, s));
  CHECK_CUDA(cudaMemcpyAsync(y.data(), dx, y.bytes(), cudaMemcpyDeviceToHost, s));
  CHECK_CUDA(cudaEventSynchronize(event));
  x.data()[0] = 7;  // the copy has read it
  s.wait();
  CHECK(y.values() == ramp<float>(kN));
}

TEST_CASE("events tell times apart where they may") {
  const TestStream s;
  const TestEvent begin(cudaEventDefault), end(cudaEventDefault), untimed;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN);
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaErrorInvalidResourceHandle);  // not recorded
  CHECK_CUDA(cudaEventRecord(begin, s));
  samples::affine(s, y, x, 2, 1, kN);
  CHECK_CUDA(cudaEventRecord(end, s));
  CHECK_CUDA(cudaEventRecord(untimed, s));
  s.wait();
  CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
  CHECK(ms > 0);
  CHECK(ms < 1);
  CHECK(cudaEventElapsedTime(&ms, begin, untimed) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("a host function runs in the order of its stream, on a thread of its own") {
  const TestStream s;
  const HostValues<float> y(kN);
  const DeviceValues<float> x(ramp<float>(kN));
  struct Seen {
    const float* data;
    float value = 0;
    std::thread::id thread{};
  } seen{y.data()};
  CHECK_CUDA(cudaMemcpyAsync(y.data(), x, y.bytes(), cudaMemcpyDeviceToHost, s));
  const auto look = [](void* data) {
    auto& here = *static_cast<Seen*>(data);
    here.value = here.data[7];  // the copy before has landed
    here.thread = std::this_thread::get_id();
  };
  CHECK_CUDA(cudaLaunchHostFunc(s, look, &seen));
  s.wait();
  CHECK(seen.value == 7);
  CHECK(seen.thread != std::thread::id());
  CHECK(seen.thread != std::this_thread::get_id());
}

TEST_CASE("a destroyed stream still does its work") {
  const TestStream s;
  const TestEvent event;
  const DeviceValues<float> x(ramp<float>(kN)), y(kN);
  cudaStream_t gone = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
  samples::affine(gone, y, x, 2, 1, kN);
  CHECK_CUDA(cudaEventRecord(event, gone));
  CHECK_CUDA(cudaStreamDestroy(gone));
  CHECK_CUDA(cudaStreamWaitEvent(s, event, 0));
  CHECK(y.values(s) == affine(ramp<float>(kN), 2, 1));
}

TEST_CASE("what streams are asked for they tell") {
  cudaStream_t s = nullptr;
  int least = 0, greatest = 0, priority = 0, device = -1;
  unsigned flags = 0;
  CHECK_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK_CUDA(cudaSetDevice(1));
  CHECK_CUDA(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaStreamGetPriority(s, &priority));
  CHECK_CUDA(cudaStreamGetFlags(s, &flags));
  CHECK_CUDA(cudaStreamGetDevice(s, &device));
  CHECK(priority == greatest);
  CHECK(flags == cudaStreamNonBlocking);
  CHECK(device == 1);
  CHECK_CUDA(cudaStreamDestroy(s));
}

TEST_CASE("an event is recorded by streams of its device alone, and awaited by all") {
  const TestStream here(0), there(1);
  CHECK_CUDA(cudaSetDevice(0));
  const TestEvent event;
  CHECK(cudaEventRecord(event, there) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  CHECK_CUDA(cudaEventRecord(event, here));
  CHECK_CUDA(cudaStreamWaitEvent(there, event, 0));
  there.wait();
}
