/// The capture of a graph, by CUDA's rules: which streams take part, what may not be called meanwhile.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "event.h"
#include "graph.h"
#include "operation.h"

namespace simgpu {

class Capture {
 public:
  /// The capture that stream takes part in, found by its number; nullptr where it has ended.
  static Capture* find(uint64_t number);

  static cudaError_t begin(Stream& origin, cudaStreamCaptureMode mode);
  /// Gives the graph, unless the capture was invalidated, forks are unjoined, or the caller may not end it.
  static cudaError_t end(Stream& stream, std::shared_ptr<Graph>* graph);
  /// What a call that may interfere with captures gets: it is refused by the modes of the captures and of the calling
  /// thread, and invalidates what refuses it.
  static cudaError_t check_unsafe_call(const char* call);
  /// What a call that waits for a device, or all of them (-1), gets.
  static cudaError_t check_device_wait(int device, const char* call);
  /// The calling thread's mode, as cudaThreadExchangeStreamCaptureMode sets it.
  static cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode);

  /// Adds a node after the stream's last.
  void add(Stream& s, Operation op);
  void record(Stream& s, Event& e);
  /// A stream waits for an event that was recorded in this capture; it joins where it wasn't in.
  cudaError_t wait(Stream& s, const Event& e);

  void invalidate(const std::string& why);
  bool is_valid() const { return why_invalid_.empty(); }
  uint64_t number() const { return number_; }
  const Graph& graph() const { return *graph_; }

 private:
  Capture(Stream& origin, cudaStreamCaptureMode mode);
  cudaError_t check_end(const Stream& stream) const;
  bool refuses_unsafe_calls() const;
  bool all_joined() const;

  uint64_t number_;
  Stream& origin_;
  cudaStreamCaptureMode mode_;
  std::thread::id thread_;
  std::vector<Stream*> streams_;
  std::shared_ptr<Graph> graph_;
  std::string why_invalid_;
};

}  // namespace simgpu
