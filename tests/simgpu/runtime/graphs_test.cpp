// Capture and graphs, by CUDA's rules.
#include <doctest/doctest.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>

#include <thread>

using namespace simgpu_test;

namespace {

constexpr int kN = 512;

struct Fixture {
  TestStream s, side, outside;
  TestEvent fork, join;
  DeviceValues<float> x{ramp<float>(kN)}, y{std::vector<float>(kN, 0.0f)}, z{std::vector<float>(kN, 0.0f)};

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    CHECK_CUDA(cudaStreamBeginCapture(s, mode));
  }
  void fork_side() {
    CHECK_CUDA(cudaEventRecord(fork, s));
    CHECK_CUDA(cudaStreamWaitEvent(side, fork, 0));
  }
  void join_side() {
    CHECK_CUDA(cudaEventRecord(join, side));
    CHECK_CUDA(cudaStreamWaitEvent(s, join, 0));
  }
  // Ends a capture that has to fail so, and leaves the stream usable.
  void check_end(cudaError_t error) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s, &graph) == error);
    CHECK(graph == nullptr);
    cudaGetLastError();
    samples::affine(s, y, x, 1, 0, kN);
    s.wait();
  }
  cudaGraphExec_t end(size_t nodes) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    size_t count = 0;
    CHECK_CUDA(cudaStreamEndCapture(s, &graph));
    CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
    CHECK(count == nodes);
    CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    return executable;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "captured work runs when its graph is launched, as often as that is") {
  begin();
  samples::affine(s, y, y, 1, 1, kN);
  const cudaGraphExec_t graph = end(1);
  CHECK(y.values(s) == std::vector<float>(kN, 0.0f));
  CHECK_CUDA(cudaGraphUpload(graph, s));
  for (int i = 0; i < 3; ++i) CHECK_CUDA(cudaGraphLaunch(graph, s));
  CHECK(y.values(s) == std::vector<float>(kN, 3.0f));
  CHECK_CUDA(cudaGraphExecDestroy(graph));
}

TEST_CASE_FIXTURE(Fixture, "a graph forks and joins") {
  begin();
  samples::affine(s, y, x, 2, 0, kN);
  fork_side();
  samples::affine(side, z, y, 1, 1, kN);
  CHECK_CUDA(cudaMemsetAsync(x, 0, x.bytes(), s));
  join_side();
  samples::affine(s, y, z, 2, 0, kN);
  const cudaGraphExec_t graph = end(4);
  CHECK_CUDA(cudaGraphLaunch(graph, s));
  CHECK(y.values(s) == ramp<float>(kN, 2, 4));
  CHECK_CUDA(cudaGraphLaunch(graph, side));  // after the first, though on another stream
  CHECK(y.values(side) == std::vector<float>(kN, 2.0f));
  CHECK_CUDA(cudaGraphExecDestroy(graph));
}

TEST_CASE_FIXTURE(Fixture, "a graph works on several devices") {
  const TestStream far(1);
  const TestEvent far_join;
  const DeviceValues<float> far_x(kN);
  CHECK_CUDA(cudaSetDevice(0));
  begin();
  CHECK_CUDA(cudaEventRecord(fork, s));
  CHECK_CUDA(cudaStreamWaitEvent(far, fork, 0));
  CHECK_CUDA(cudaMemcpyPeerAsync(far_x, 1, x, 0, x.bytes(), far));
  CHECK_CUDA(cudaEventRecord(far_join, far));
  CHECK_CUDA(cudaStreamWaitEvent(s, far_join, 0));
  CHECK_CUDA(cudaMemcpyPeerAsync(y, 0, far_x, 1, y.bytes(), s));
  const cudaGraphExec_t graph = end(2);
  CHECK_CUDA(cudaGraphLaunch(graph, s));
  CHECK(y.values(s) == ramp<float>(kN));
  CHECK_CUDA(cudaGraphExecDestroy(graph));
}

TEST_CASE_FIXTURE(Fixture, "what waits for the device ends a capture") {
  SUBCASE("its stream") {
    begin();
    CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    CHECK_THROWS_WITH(samples::affine(s, y, x, 1, 0, kN), doctest::Contains("cudaErrorStreamCaptureInvalidated"));
  }
  SUBCASE("its stream, asked") {
    begin();
    CHECK(cudaStreamQuery(s) == cudaErrorStreamCaptureUnsupported);
  }
  SUBCASE("the device") {
    begin(cudaStreamCaptureModeRelaxed);
    CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
  }
  SUBCASE("an event in it") {
    begin();
    CHECK_CUDA(cudaEventRecord(fork, s));
    CHECK(cudaEventSynchronize(fork) == cudaErrorCapturedEvent);
  }
  SUBCASE("an event of other work") {
    begin();
    CHECK(cudaEventQuery(join) == cudaErrorStreamCaptureUnsupported);
  }
  check_end(cudaErrorStreamCaptureInvalidated);
}

TEST_CASE_FIXTURE(Fixture, "what allocates ends a capture, where its mode looks") {
  void* p = nullptr;
  SUBCASE("of the same thread") {
    begin();
    CHECK(cudaMalloc(&p, 100) == cudaErrorStreamCaptureUnsupported);
    check_end(cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("pinned memory as well") {
    begin();
    CHECK(cudaMallocHost(&p, 100) == cudaErrorStreamCaptureUnsupported);
    check_end(cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("of another thread, in the global mode") {
    begin(cudaStreamCaptureModeGlobal);
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaMalloc(&p, 100); }).join();
    CHECK(error == cudaErrorStreamCaptureUnsupported);
    check_end(cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("not of another thread in the thread's own mode") {
    begin(cudaStreamCaptureModeThreadLocal);
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaMalloc(&p, 100); }).join();
    CHECK(error == cudaSuccess);
    CHECK_CUDA(cudaGraphExecDestroy(end(0)));
  }
  SUBCASE("not where the thread says that it knows") {
    begin(cudaStreamCaptureModeGlobal);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(cudaMalloc(&p, 100) == cudaSuccess);
    CHECK_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);
    CHECK_CUDA(cudaGraphExecDestroy(end(0)));
  }
  SUBCASE("not in the relaxed mode") {
    begin(cudaStreamCaptureModeRelaxed);
    CHECK(cudaMalloc(&p, 100) == cudaSuccess);
    CHECK_CUDA(cudaGraphExecDestroy(end(0)));
  }
  cudaGetLastError();
  if (p) CHECK_CUDA(cudaFree(p));
}

TEST_CASE_FIXTURE(Fixture, "forks must join") {
  begin();
  fork_side();
  samples::affine(side, y, x, 1, 0, kN);
  check_end(cudaErrorStreamCaptureUnjoined);
}

TEST_CASE_FIXTURE(Fixture, "work that wasn't captured can't be awaited in a capture") {
  CHECK_CUDA(cudaEventRecord(fork, outside));
  begin();
  CHECK(cudaStreamWaitEvent(s, fork, 0) == cudaErrorStreamCaptureIsolation);
  check_end(cudaErrorStreamCaptureInvalidated);
}

TEST_CASE_FIXTURE(Fixture, "two captures can't become one") {
  begin();
  CHECK_CUDA(cudaStreamBeginCapture(outside, cudaStreamCaptureModeThreadLocal));
  CHECK_CUDA(cudaEventRecord(fork, outside));
  CHECK(cudaStreamWaitEvent(s, fork, 0) == cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(outside, &graph) == cudaErrorStreamCaptureInvalidated);
  check_end(cudaErrorStreamCaptureInvalidated);
}

TEST_CASE_FIXTURE(Fixture, "a capture is ended by its thread, on its stream") {
  SUBCASE("another stream") {
    begin();
    fork_side();
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(side, &graph) == cudaErrorStreamCaptureUnmatched);
    check_end(cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("another thread") {
    begin();
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      cudaGraph_t graph = nullptr;
      error = cudaStreamEndCapture(s, &graph);
    }).join();
    CHECK(error == cudaErrorStreamCaptureWrongThread);
    check_end(cudaErrorStreamCaptureInvalidated);
  }
  SUBCASE("none") {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorIllegalState);
  }
  SUBCASE("twice begun") {
    begin();
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaErrorIllegalState);
    CHECK_CUDA(cudaGraphExecDestroy(end(0)));
  }
  cudaGetLastError();
}

TEST_CASE_FIXTURE(Fixture, "streams tell that they are captured") {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0, side_id = 0;
  begin();
  fork_side();
  CHECK_CUDA(cudaStreamIsCapturing(side, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK_CUDA(cudaStreamGetCaptureInfo(s, &status, &id));
  CHECK_CUDA(cudaStreamGetCaptureInfo(side, &status, &side_id));
  CHECK(id == side_id);
  CHECK_CUDA(cudaStreamIsCapturing(outside, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  join_side();
  CHECK_CUDA(cudaGraphExecDestroy(end(0)));
  CHECK_CUDA(cudaStreamIsCapturing(side, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
}
