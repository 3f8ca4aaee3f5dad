// simgpu-faults NAME: commits one fault. The simulator is to end the process with a message; where it doesn't, it ends
// with 0.
#include <tests/simgpu/runtime/device_values.h>
#include <tests/simgpu/samples/faults.h>
#include <tests/simgpu/samples/samples.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>

using namespace simgpu_test;

namespace {

constexpr int kMany = 128;

// What most need: a stream, and values of device 0. What is left when it ends is not the fault's matter.
struct Setting {
  const TestStream& s = *new TestStream;
  const TestStream& other = *new TestStream;
  const DeviceValues<float>& x = *new DeviceValues<float>(ramp<float>(kMany));
  const DeviceValues<float>& y = *new DeviceValues<float>(std::vector<float>(kMany, 0.0f));

  void wait() const {
    s.wait();
    other.wait();
  }
};

// Two streams, and work on each that an event has to order.
void without_wait(const Setting& t) {
  samples::affine(t.s, t.y, t.x, 2, 1, kMany);
  samples::affine(t.other, t.x, t.y, 2, 1, kMany);
}

void wait_for_an_earlier_event(const Setting& t) {
  const TestEvent event;
  samples::affine(t.s, t.y, t.x, 1, 0, kMany);
  CHECK_CUDA(cudaEventRecord(event, t.s));
  samples::affine(t.s, t.y, t.x, 2, 1, kMany);
  CHECK_CUDA(cudaStreamWaitEvent(t.other, event, 0));
  samples::affine(t.other, t.x, t.y, 2, 1, kMany);
}

void overwrite_what_is_read(const Setting& t) {
  DeviceValues<float> z(kMany);
  samples::affine(t.s, z, t.x, 2, 1, kMany);
  CHECK_CUDA(cudaMemsetAsync(t.x, 0, t.x.bytes(), t.other));
  t.wait();
}

void free_what_is_used(const Setting& t) {
  void* p = nullptr;
  CHECK_CUDA(cudaMallocAsync(&p, t.x.bytes(), t.s));
  const TestEvent event;
  CHECK_CUDA(cudaEventRecord(event, t.s));
  CHECK_CUDA(cudaStreamWaitEvent(t.other, event, 0));
  samples::affine(t.other, static_cast<float*>(p), t.x, 2, 1, kMany);
  CHECK_CUDA(cudaFreeAsync(p, t.s));
}

void use_before_allocation(const Setting& t) {
  void* p = nullptr;
  CHECK_CUDA(cudaMallocAsync(&p, t.x.bytes(), t.s));
  samples::affine(t.other, static_cast<float*>(p), t.x, 2, 1, kMany);
}

void use_after_free(const Setting& t) {
  auto* y = new DeviceValues<float>(kMany);
  const float* stale = *y;
  delete y;
  samples::add_in_struct(t.s, t.y, stale, 64);
}

void race_in_graph(const Setting& t) {
  const TestEvent fork, join;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(t.s, cudaStreamCaptureModeThreadLocal));
  CHECK_CUDA(cudaEventRecord(fork, t.s));
  CHECK_CUDA(cudaStreamWaitEvent(t.other, fork, 0));
  samples::affine(t.s, t.y, t.x, 2, 1, kMany);
  samples::affine(t.other, t.x, t.y, 2, 1, kMany);
  CHECK_CUDA(cudaEventRecord(join, t.other));
  CHECK_CUDA(cudaStreamWaitEvent(t.s, join, 0));
  CHECK_CUDA(cudaStreamEndCapture(t.s, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(executable, t.s));
}

void graph_with_freed_memory(const Setting& t) {
  auto* y = new DeviceValues<float>(kMany);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(t.s, cudaStreamCaptureModeThreadLocal));
  samples::affine(t.s, *y, t.x, 2, 1, kMany);
  CHECK_CUDA(cudaStreamEndCapture(t.s, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(executable, t.s));
  t.s.wait();
  delete y;
  CHECK_CUDA(cudaGraphLaunch(executable, t.s));
}

void write_source_in_flight(const Setting& t) {
  HostValues<float> pinned(ramp<float>(4096));
  DeviceValues<float> x(4096);
  CHECK_CUDA(cudaMemcpyAsync(x, pinned.data(), pinned.bytes(), cudaMemcpyHostToDevice, t.s));
  pinned.data()[100] = 1;
}

void read_destination_in_flight(const Setting& t) {
  HostValues<float> pinned(kMany);
  CHECK_CUDA(cudaMemcpyAsync(pinned.data(), t.x, pinned.bytes(), cudaMemcpyDeviceToHost, t.s));
  std::printf("%f\n", double(pinned.data()[100]));
}

void two_copies_into_pinned(const Setting& t) {
  HostValues<float> pinned(kMany);
  CHECK_CUDA(cudaMemcpyAsync(pinned.data(), t.x, pinned.bytes(), cudaMemcpyDeviceToHost, t.s));
  CHECK_CUDA(cudaMemcpyAsync(pinned.data(), t.y, pinned.bytes(), cudaMemcpyDeviceToHost, t.other));
}

void last_block_without_fence(const Setting& t) {
  const DeviceValues<unsigned> ticket(std::vector<unsigned>{0});
  samples::sum_without_fence(t.s, t.y, t.x, ticket, 8);
  t.wait();
}

void memory_of_another_device(const Setting& t) {
  CHECK_CUDA(cudaSetDevice(1));
  const DeviceValues<float> far(ramp<float>(kMany));
  CHECK_CUDA(cudaSetDevice(0));
  samples::affine(t.s, t.y, far, 2, 1, kMany);
}

void hidden_memory_of_another_device(const Setting& t) {
  CHECK_CUDA(cudaSetDevice(1));
  const DeviceValues<float> far(ramp<float>(kMany));
  CHECK_CUDA(cudaSetDevice(0));
  samples::add_in_struct(t.s, t.y, far, 64);
  t.wait();
}

void read_by_host(const Setting& t) {
  t.wait();
  std::printf("%f\n", double(t.x[100]));
}

void overrun_found_at_free(const Setting& t) {
  const DeviceValues<float> y(100);
  samples::one_too_many(t.s, y, t.x, 100);
}

void free_twice(const Setting&) {
  void* p = nullptr;
  CHECK_CUDA(cudaMalloc(&p, 100));
  cudaFree(p);
  cudaFree(p);
}

void copy_of_pageable_memory(const Setting& t) {
  std::vector<float> host(kMany);
  CHECK_CUDA(cudaMemcpyAsync(host.data(), t.x, t.x.bytes(), cudaMemcpyDeviceToHost, t.s));
}

void copy_too_much(const Setting& t) {
  HostValues<float> pinned(2 * kMany);
  CHECK_CUDA(cudaMemcpyAsync(pinned.data(), t.x, pinned.bytes(), cudaMemcpyDeviceToHost, t.s));
}

void read_what_was_never_written(const Setting& t) {
  const DeviceValues<float> empty(kMany);
  samples::affine(t.s, t.y, empty, 2, 1, kMany);
  t.wait();
}

void fetch_what_was_never_written(const Setting& t) {
  const DeviceValues<float> empty(kMany);
  empty.values(t.s);
}

void write_to_host(const Setting& t) {
  static float host[64];
  samples::add_in_struct(t.s, host, t.x, 64);
}

void read_from_host(const Setting& t) {
  static float host[64] = {1};
  samples::add_in_struct(t.s, t.y, host, 64);
}

void pass_host_pointer(const Setting& t) {
  static float host[kMany];
  samples::affine(t.s, t.y, host, 2, 1, kMany);
}

void call_from_host_function(const Setting& t) {
  const auto call = [](void*) {
    void* p = nullptr;
    cudaMalloc(&p, 100);
  };
  CHECK_CUDA(cudaLaunchHostFunc(t.s, call, nullptr));
}

void use_destroyed_stream(const Setting& t) {
  cudaStream_t s = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamDestroy(s));
  samples::affine(s, t.y, t.x, 2, 1, kMany);
}

const std::map<std::string, std::function<void(const Setting&)>> kFaults = {
    {"missing barrier", [](const Setting& t) { samples::missing_barrier(t.s, t.y, t.x); }},
    {"missing warp barrier", [](const Setting& t) { samples::missing_warp_barrier(t.s, t.y, t.x); }},
    {"leave before barrier", [](const Setting& t) { samples::leave_before_barrier(t.s, t.x, 100); }},
    {"different barriers", [](const Setting& t) { samples::different_barriers(t.s, t.x); }},
    {"incomplete shuffle", [](const Setting& t) { samples::incomplete_shuffle(t.s, t.x); }},
    {"shuffle from outside", [](const Setting& t) { samples::shuffle_from_outside(t.s, t.x); }},
    {"overrun dynamic", [](const Setting& t) { samples::overrun_dynamic(t.s, t.x); }},
    {"overrun static", [](const Setting& t) { samples::overrun_static(t.s, t.x, 32); }},
    {"uninitialised shared", [](const Setting& t) { samples::uninitialised_shared(t.s, t.y); }},
    {"block race", [](const Setting& t) { samples::block_race(t.s, t.x); }},
    {"half atomic", [](const Setting& t) { samples::half_atomic(t.s, t.x); }},
    {"one too many", [](const Setting& t) { samples::one_too_many(t.s, t.y, t.x, kMany); }},
    {"misaligned", [](const Setting& t) { samples::copy_packed(t.s, t.y, t.x + 1); }},
    {"recursion",
     [](const Setting& t) { samples::recurse(t.s, reinterpret_cast<int*>(static_cast<float*>(t.y)), 1000); }},
    {"last block without fence", last_block_without_fence},
    {"wrong last block", [](const Setting& t) { samples::sum_by_wrong_block(t.s, t.y, t.x, 8); }},
    {"without wait", without_wait},
    {"wait for an earlier event", wait_for_an_earlier_event},
    {"overwrite what is read", overwrite_what_is_read},
    {"free what is used", free_what_is_used},
    {"use before allocation", use_before_allocation},
    {"use after free", use_after_free},
    {"race in graph", race_in_graph},
    {"graph with freed memory", graph_with_freed_memory},
    {"write source in flight", write_source_in_flight},
    {"read destination in flight", read_destination_in_flight},
    {"two copies into pinned", two_copies_into_pinned},
    {"memory of another device", memory_of_another_device},
    {"hidden memory of another device", hidden_memory_of_another_device},
    {"read by host", read_by_host},
    {"overrun found at free", overrun_found_at_free},
    {"free twice", free_twice},
    {"copy of pageable memory", copy_of_pageable_memory},
    {"copy too much", copy_too_much},
    {"read what was never written", read_what_was_never_written},
    {"fetch what was never written", fetch_what_was_never_written},
    {"write to host", write_to_host},
    {"read from host", read_from_host},
    {"pass host pointer", pass_host_pointer},
    {"default stream", [](const Setting& t) { samples::affine(nullptr, t.y, t.x, 2, 1, kMany); }},
    {"destroyed stream", use_destroyed_stream},
    {"call from host function", call_from_host_function},
    {"no fault", [](const Setting& t) { samples::affine(t.s, t.y, t.x, 2, 1, kMany); }},
};

}  // namespace

int main(int argc, char** argv) {
  const auto fault = kFaults.find(argc > 1 ? argv[1] : "");
  if (fault == kFaults.end()) {
    std::fprintf(stderr, "usage: simgpu-faults NAME; names:\n");
    for (const auto& [name, f] : kFaults) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  const Setting setting;
  fault->second(setting);
  setting.wait();
}
