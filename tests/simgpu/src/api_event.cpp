// Events.
#include "api.h"
#include "capture.h"
#include "counters.h"
#include "event.h"
#include "scheduler.h"
#include "stream.h"
#include "timeline.h"

using namespace simgpu;

namespace {

cudaError_t check_wait(const Event& e, const char* call) {
  if (!e.capture) return Capture::check_unsafe_call(call);
  if (Capture* c = Capture::find(e.capture)) c->invalidate(call);
  return cudaErrorCapturedEvent;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api([&] {
    if (flags & ~unsigned(cudaEventBlockingSync | cudaEventDisableTiming))
      fail("events with flags %#x are not modelled", flags);
    *event = reinterpret_cast<cudaEvent_t>(create_event(current_device(), !(flags & cudaEventDisableTiming)).get());
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api([&] {
    destroy_event(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    const auto e = event_of(event);
    if (e->device != s.device) return cudaErrorInvalidResourceHandle;
    if (!s.capture) {
      enqueue_record(s, e);
      return cudaSuccess;
    }
    if (!s.capture->is_valid()) return cudaErrorStreamCaptureInvalidated;
    s.capture->record(s, *e);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api([&] {
    const auto e = event_of(event);
    if (const auto error = check_wait(*e, "cudaEventQuery")) return error;
    ++counts.queries;
    if (e->completed < e->recorded) advance(recorder_of({e, e->recorded}));
    if (e->completed < e->recorded) return cudaErrorNotReady;
    host_waited_for(e->clock);
    return sticky_error();
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api([&] {
    const auto e = event_of(event);
    if (const auto error = check_wait(*e, "cudaEventSynchronize")) return error;
    ++counts.host_waits;
    const uint64_t recorded = e->recorded;
    const VectorClock clock = e->clock;
    drain([&] { return e->completed >= recorded; }, recorder_of({e, recorded}), "cudaEventSynchronize");
    host_waited_for(clock);
    host_waits_until(e->time_us);
    return sticky_error();
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  return api([&] {
    const auto b = event_of(begin), e = event_of(end);
    if (!b->timed || !e->timed || !b->recorded || !e->recorded || b->device != e->device)
      return cudaErrorInvalidResourceHandle;
    if (b->completed < b->recorded || e->completed < e->recorded) return cudaErrorNotReady;
    *ms = float((e->time_us - b->time_us) / 1000);
    return cudaSuccess;
  });
}

}  // extern "C"
