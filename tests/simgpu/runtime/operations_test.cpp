// What the simulator's libraries rely on: operations that wait for each other, as collectives do, and the ranges that
// an operation declares.
#include <doctest/doctest.h>
#include <simgpu/simgpu.h>
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/samples.h>
#include <tests/simgpu/src/operation.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

using namespace simgpu_test;

namespace {

// A rendezvous of `size` operations: each is done once all have been queued.
struct Meeting {
  const int size;
  std::atomic<int> queued{0};

  void join(cudaStream_t stream) {
    std::lock_guard lock(simgpu::runtime_mutex());
    ++queued;
    simgpu::submit(simgpu::stream_of(stream),
                   {.name = "meeting",
                    .step = [this] { return queued < size ? simgpu::Step::blocked : simgpu::Step::done; },
                    .waits_for_peers = true});
  }
};

}  // namespace

TEST_CASE("threads whose streams wait for each other all get on") {
  constexpr int kRanks = 3;
  std::barrier together(kRanks);  // allocating and freeing waits for a device, and so for others' meetings
  Meeting meetings[] = {{kRanks}, {kRanks}, {kRanks}};
  std::atomic<int> done{0};
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r)
    ranks.emplace_back([&, r] {
      const TestStream s(r % 2);
      const DeviceValues<float> x(ramp<float>(100)), y(100);
      const HostValues<float> back(100);
      together.arrive_and_wait();
      for (Meeting& m : meetings) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3 * r));
        m.join(s);
        samples::affine(s, y, x, 2, 1, 100);
        CHECK_CUDA(cudaMemcpyAsync(back.data(), y, back.bytes(), cudaMemcpyDeviceToHost, s));
        s.wait();
        done += back.data()[1] == 3;
      }
      together.arrive_and_wait();
    });
  for (auto& r : ranks) r.join();
  CHECK(done == 3 * kRanks);
}

TEST_CASE("one thread queues for several devices before it waits") {
  const TestStream a(0), b(1);
  Meeting meeting{2};
  meeting.join(a);
  meeting.join(b);
  a.wait();
  b.wait();
}

TEST_CASE("a rank that is busy elsewhere doesn't keep its peer waiting") {
  const TestStream a(0), b(1);
  Meeting first{2}, second{2};
  first.join(a);
  std::thread peer([&] {
    first.join(b);
    second.join(b);
    b.wait();  // needs the second of a, which nobody waits for
  });
  second.join(a);
  peer.join();
  a.wait();
}

TEST_CASE("operations of a graph wait for peers too") {
  const TestStream s(0), other(1);
  CHECK_CUDA(cudaSetDevice(0));
  Meeting meeting{2};
  const DeviceValues<float> x(ramp<float>(100)), y(100);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  meeting.join(s);
  samples::affine(s, y, x, 2, 1, 100);
  CHECK_CUDA(cudaStreamEndCapture(s, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(executable, s));
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    meeting.join(other);
    other.wait();
  });
  s.wait();
  peer.join();
  CHECK(y.values(s)[1] == 3);
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

TEST_CASE("what an operation declares is what it moved") {
  const TestStream s;
  const DeviceValues<float> x(ramp<float>(100)), y(100);
  simgpu_reset_counts();
  simgpu::submit(simgpu::stream_of(s), {.name = "library",
                                        .step =
                                            [&] {
                                              std::memcpy(y, x, x.bytes());
                                              return simgpu::Step::done;
                                            },
                                        .accesses = {{x, x.bytes(), false}, {y, y.bytes(), true}},
                                        .flops = 100});
  CHECK(y.values(s) == ramp<float>(100));
  simgpu_counts c;
  simgpu_get_counts(&c);
  CHECK(c.library_calls == 1);
  CHECK(c.bytes_read == 400);
  CHECK(c.bytes_written == 400);
  CHECK(c.flops == 100);
}
