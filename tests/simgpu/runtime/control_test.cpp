// simgpu.h: counts, faults that are asked for, estimates.
#include <doctest/doctest.h>
#include <simgpu/simgpu.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

using namespace simgpu_test;

namespace {

constexpr int kN = 1000;

simgpu_counts counts() {
  simgpu_counts c;
  simgpu_get_counts(&c);
  return c;
}

struct Fixture {
  TestStream s;
  DeviceValues<float> x{ramp<float>(kN)}, y{std::vector<float>(kN, 0.0f)};

  Fixture() { simgpu_reset_counts(); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "calls are counted") {
  const HostValues<float> host(kN);
  samples::affine(s, y, x, 2, 1, kN);
  samples::affine(s, y, x, 2, 1, kN);
  CHECK_CUDA(cudaMemsetAsync(y, 0, y.bytes(), s));
  CHECK_CUDA(cudaMemcpyAsync(host.data(), y, y.bytes(), cudaMemcpyDeviceToHost, s));
  CHECK_CUDA(cudaMemcpyAsync(y, x, y.bytes(), cudaMemcpyDeviceToDevice, s));
  { const DeviceValues<float> z(10); }
  cudaStreamQuery(s);
  s.wait();
  const simgpu_counts c = counts();
  CHECK(c.kernels == 2);
  CHECK(c.fills == 1);
  CHECK(c.host_copies == 1);
  CHECK(c.host_copy_bytes == y.bytes());
  CHECK(c.device_copies == 1);
  CHECK(c.peer_copies == 0);
  CHECK(c.allocations == 1);
  CHECK(c.pinned_allocations == 1);
  CHECK(c.host_waits == 1);
  CHECK(c.queries == 1);
  CHECK(c.peak_bytes == 2 * y.bytes() + 40);
}

TEST_CASE_FIXTURE(Fixture, "a graph's launch is one call, with its nodes") {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 3; ++i) samples::affine(s, y, x, 2, 1, kN);
  CHECK_CUDA(cudaStreamEndCapture(s, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; ++i) CHECK_CUDA(cudaGraphLaunch(executable, s));
  s.wait();
  CHECK(counts().kernels == 0);
  CHECK(counts().graphs == 2);
  CHECK(counts().graph_nodes == 6);
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

TEST_CASE_FIXTURE(Fixture, "bytes of kernels, where accesses are reported") {
  if (!simgpu_is_checked()) {
    samples::affine(s, y, x, 2, 1, kN);
    s.wait();
    CHECK(counts().bytes_read == 0);
    return;
  }
  samples::affine(s, y, x, 2, 1, kN);
  const DeviceValues<float> sum(std::vector<float>{0});
  samples::sum(s, sum, x, kN);
  s.wait();
  std::map<std::string, simgpu_operation_counts> found;
  simgpu_for_each_operation(
      [](void* context, const simgpu_operation_counts* o) {
        (*static_cast<std::map<std::string, simgpu_operation_counts>*>(context))[o->name] = *o;
      },
      &found);
  CHECK(found.at("samples::affine_kernel").runs == 1);
  CHECK(found.at("samples::affine_kernel").bytes_read == 4 * kN);
  CHECK(found.at("samples::affine_kernel").bytes_written == 4 * kN);
  CHECK(found.at("samples::sum_kernel").bytes_read == 4 * kN + 4);
  CHECK(found.at("samples::sum_kernel").bytes_written == 4);
}

TEST_CASE_FIXTURE(Fixture, "an allocation that is to fail does") {
  void* p = nullptr;
  simgpu_fail_allocation(2);
  CHECK(cudaMalloc(&p, 100) == cudaSuccess);
  CHECK_CUDA(cudaFree(p));
  CHECK(cudaMallocAsync(&p, 100, s) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&p, 100) == cudaSuccess);
  CHECK_CUDA(cudaFree(p));
  cudaGetLastError();
}

TEST_CASE_FIXTURE(Fixture, "a launch that is to be refused is, and nothing else") {
  simgpu_refuse_launch(1);
  CHECK_THROWS_WITH(samples::affine(s, y, x, 2, 1, kN), doctest::Contains("cudaErrorLaunchOutOfResources"));
  samples::affine(s, y, x, 2, 1, kN);
  CHECK(y.values(s)[1] == 3);
}

TEST_CASE_FIXTURE(Fixture, "a kernel that is to fail leaves an error that stays") {
  simgpu_fail_kernel(2);
  samples::affine(s, y, x, 2, 1, kN);
  try {
    samples::affine(s, y, x, 2, 1, kN);  // seeds that run it at once may tell at once
  } catch (const std::exception&) {
  }
  CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 100) == cudaErrorLaunchFailure);
  simgpu_set_sticky_error(cudaSuccess);
  cudaGetLastError();
  s.wait();
  CHECK(cudaMalloc(&p, 100) == cudaSuccess);
  CHECK_CUDA(cudaFree(p));
}

TEST_CASE_FIXTURE(Fixture, "a slow link is slow") {
  CHECK_CUDA(cudaSetDevice(1));
  const DeviceValues<float> far(ramp<float>(kN, 5));
  CHECK_CUDA(cudaSetDevice(0));
  simgpu_delay_links_ms(50);
  const auto begin = std::chrono::steady_clock::now();
  CHECK_CUDA(cudaMemcpyPeerAsync(y, 0, far, 1, y.bytes(), s));
  CHECK(y.values(s) == ramp<float>(kN, 5));
  CHECK(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(50));
  simgpu_delay_links_ms(0);
}

TEST_CASE_FIXTURE(Fixture, "a copy takes as long as its bytes, and the timeline shows it") {
  constexpr size_t bytes = size_t{48} << 20;
  const DeviceValues<char> a(bytes), b(bytes);
  const TestEvent begin(cudaEventDefault), end(cudaEventDefault);
  CHECK_CUDA(cudaMemsetAsync(a, 0, bytes, s));
  simgpu_start_timeline();
  CHECK_CUDA(cudaEventRecord(begin, s));
  CHECK_CUDA(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, s));
  CHECK_CUDA(cudaEventRecord(end, s));
  const double before = simgpu_host_us();
  s.wait();
  float ms = 0;
  CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
  CHECK(ms == doctest::Approx(2 * double(bytes) / 4.8e12 * 1e3).epsilon(0.2));
  CHECK(simgpu_host_us() - before > 0.5 * 1000 * double(ms));

  const std::string path =
      "simgpu_timeline_" + std::to_string(simgpu_seed()) + (simgpu_is_checked() ? "c" : "") + ".json";
  REQUIRE(simgpu_write_timeline(path.c_str()));
  std::ifstream file(path);
  const auto trace = nlohmann::json::parse(file);
  bool found = false;
  for (const auto& e : trace.at("traceEvents"))
    found |= e.at("name") == "copy on the device" && e.at("dur").get<double>() > 15;
  CHECK(found);
  std::remove(path.c_str());
}
