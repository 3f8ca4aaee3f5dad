// Streams.
#include <algorithm>

#include "api.h"
#include "capture.h"
#include "counters.h"
#include "executor.h"
#include "pinned.h"
#include "running.h"
#include "scheduler.h"
#include "stream.h"

using namespace simgpu;

namespace {

cudaError_t check_wait(const Stream& s, const char* call) {
  if (!s.capture) return Capture::check_unsafe_call(call);
  s.capture->invalidate(call);
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return api([&] {
    if (flags & ~unsigned(cudaStreamNonBlocking)) return cudaErrorInvalidValue;
    *stream = reinterpret_cast<cudaStream_t>(create_stream(current_device(), flags, std::clamp(priority, -5, 0)));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (s.capture) {
      s.capture->invalidate("cudaStreamDestroy");
      return cudaErrorStreamCaptureUnsupported;
    }
    destroy_stream(s);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return api([&] {
    *flags = stream_of(stream).flags;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return api([&] {
    *priority = stream_of(stream).priority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return api([&] {
    *device = stream_of(stream).device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (const auto error = check_wait(s, "cudaStreamSynchronize")) return error;
    ++counts.host_waits;
    wait_for_stream(s, "cudaStreamSynchronize");
    return sticky_error();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (const auto error = check_wait(s, "cudaStreamQuery")) return error;
    ++counts.queries;
    if (!s.queue.empty()) advance(&s);
    if (!s.queue.empty()) return cudaErrorNotReady;
    host_waited_for(s.clock);
    return sticky_error();
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return api([&] {
    if (flags) return cudaErrorInvalidValue;
    Stream& s = stream_of(stream);
    const auto e = event_of(event);
    if (e->capture) {
      Capture* c = Capture::find(e->capture);
      return c ? c->wait(s, *e) : cudaErrorCapturedEvent;
    }
    if (s.capture) {
      if (e->recorded == 0) return cudaSuccess;
      s.capture->invalidate("cudaStreamWaitEvent for an event that was recorded outside of the capture");
      return cudaErrorStreamCaptureIsolation;
    }
    enqueue_wait(s, e);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (s.capture && !s.capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
    // It runs on a thread of its own, as a real one does; what comes before it has happened for that thread.
    auto run = [=] {
      land(running.item->clock);
      run_host_function([=] { function(data); });
      return Step::done;
    };
    submit(s, {.name = "host function", .step = std::move(run), .kind = Kind::host_function});
    return cudaSuccess;
  });
}

}  // extern "C"
