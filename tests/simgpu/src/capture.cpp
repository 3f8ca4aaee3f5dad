#include "capture.h"

#include <algorithm>
#include <cstdio>

#include "stream.h"

namespace simgpu {
namespace {

std::vector<std::unique_ptr<Capture>>& active() {
  static auto& v = *new std::vector<std::unique_ptr<Capture>>;
  return v;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

void add_missing(std::vector<size_t>& to, const std::vector<size_t>& from) {
  for (const size_t n : from)
    if (std::find(to.begin(), to.end(), n) == to.end()) to.push_back(n);
}

}  // namespace

Capture::Capture(Stream& origin, cudaStreamCaptureMode mode)
    : origin_(origin),
      mode_(mode),
      thread_(std::this_thread::get_id()),
      streams_{&origin},
      graph_(std::make_shared<Graph>()) {
  static uint64_t number = 0;
  number_ = ++number;
}

Capture* Capture::find(uint64_t number) {
  for (const auto& c : active())
    if (c->number_ == number) return c.get();
  return nullptr;
}

cudaError_t Capture::begin(Stream& origin, cudaStreamCaptureMode mode) {
  if (origin.capture) return cudaErrorIllegalState;
  active().emplace_back(new Capture(origin, mode));
  origin.capture = active().back().get();
  origin.tail.clear();
  return cudaSuccess;
}

cudaError_t Capture::check_end(const Stream& stream) const {
  if (&stream != &origin_) return cudaErrorStreamCaptureUnmatched;
  if (mode_ != cudaStreamCaptureModeRelaxed && thread_ != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  if (!is_valid()) return cudaErrorStreamCaptureInvalidated;
  return all_joined() ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

// Every node must come before the origin's end: what no later work waits for would be lost.
bool Capture::all_joined() const {
  std::vector<bool> reached(graph_->nodes.size());
  std::vector<size_t> open = origin_.tail;
  while (!open.empty()) {
    const size_t n = open.back();
    open.pop_back();
    if (reached[n]) continue;
    reached[n] = true;
    for (const size_t before : graph_->nodes[n].after) open.push_back(before);
  }
  return std::all_of(reached.begin(), reached.end(), [](bool r) { return r; });
}

cudaError_t Capture::end(Stream& stream, std::shared_ptr<Graph>* graph) {
  Capture* c = stream.capture;
  if (!c) return cudaErrorIllegalState;
  const cudaError_t error = c->check_end(stream);
  if (error == cudaErrorStreamCaptureUnmatched || error == cudaErrorStreamCaptureWrongThread) {
    c->invalidate("cudaStreamEndCapture of another stream, or by another thread");
    return error;
  }
  if (error == cudaErrorStreamCaptureInvalidated)
    std::fprintf(stderr, "simgpu: the capture was invalidated by %s\n", c->why_invalid_.c_str());
  if (!error) *graph = c->graph_;
  for (Stream* s : c->streams_) {
    s->capture = nullptr;
    s->tail.clear();
  }
  std::erase_if(active(), [&](const auto& a) { return a.get() == c; });
  return error;
}

cudaStreamCaptureMode Capture::exchange_thread_mode(cudaStreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

// By the rules of cudaThreadExchangeStreamCaptureMode.
bool Capture::refuses_unsafe_calls() const {
  if (thread_mode == cudaStreamCaptureModeRelaxed || mode_ == cudaStreamCaptureModeRelaxed) return false;
  const bool own = thread_ == std::this_thread::get_id();
  return own || (mode_ == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal);
}

cudaError_t Capture::check_unsafe_call(const char* call) {
  cudaError_t error = cudaSuccess;
  for (const auto& c : active())
    if (c->refuses_unsafe_calls()) {
      c->invalidate(call);
      error = cudaErrorStreamCaptureUnsupported;
    }
  return error;
}

cudaError_t Capture::check_device_wait(int device, const char* call) {
  cudaError_t error = cudaSuccess;
  for (const auto& c : active())
    for (const Stream* s : c->streams_)
      if (device < 0 || s->device == device) {
        c->invalidate(call);
        error = cudaErrorStreamCaptureUnsupported;
      }
  return error;
}

void Capture::invalidate(const std::string& why) {
  if (is_valid()) why_invalid_ = why;
}

void Capture::add(Stream& s, Operation op) {
  if (!is_valid()) return;
  s.tail = {graph_->add(std::move(op), s, s.tail)};
}

void Capture::record(Stream& s, Event& e) {
  e.capture = number_;
  e.nodes = s.tail;
}

cudaError_t Capture::wait(Stream& s, const Event& e) {
  if (s.capture && s.capture != this) {
    s.capture->invalidate("cudaStreamWaitEvent for an event of another capture");
    invalidate("cudaStreamWaitEvent by a stream of another capture");
    return cudaErrorStreamCaptureMerge;
  }
  if (!is_valid()) return cudaErrorStreamCaptureInvalidated;
  if (!s.capture) {
    s.capture = this;
    s.tail.clear();
    streams_.push_back(&s);
  }
  add_missing(s.tail, e.nodes);
  return cudaSuccess;
}

}  // namespace simgpu
