// Capture and graphs.
#include "api.h"
#include "capture.h"
#include "graph.h"
#include "stream.h"

using namespace simgpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api([&] { return Capture::begin(stream_of(stream), mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return api([&] {
    *graph = nullptr;
    std::shared_ptr<Graph> captured;
    if (const auto error = Capture::end(stream_of(stream), &captured)) return error;
    *graph = publish(std::move(captured));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return api([&] {
    const Capture* c = stream_of(stream).capture;
    *status = !c              ? cudaStreamCaptureStatusNone
              : c->is_valid() ? cudaStreamCaptureStatusActive
                              : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (graph || dependencies || edges || count) fail("cudaStreamGetCaptureInfo: only status and id are modelled");
  if (const auto error = cudaStreamIsCapturing(stream, status)) return error;
  return api([&] {
    if (const Capture* c = stream_of(stream).capture; c && id) *id = c->number();
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api([&] {
    *mode = Capture::exchange_thread_mode(*mode);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return api([&] {
    if (flags) fail("cudaGraphInstantiate with flags %#llx is not modelled", flags);
    *executable = publish(std::make_shared<ExecutableGraph>(*graph_of(graph), current_device()));
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api([&] {
    forget(graph);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api([&] {
    forget(executable);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return api([&] {
    graph_of(executable);
    stream_of(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return api([&] {
    Stream& s = stream_of(stream);
    if (s.capture) fail("cudaGraphLaunch on a capturing stream is not modelled");
    graph_of(executable)->launch(s);
    return cudaSuccess;
  });
}
/// Nodes are counted, not given.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api([&] {
    if (nodes) fail("cudaGraphGetNodes: only the count is modelled");
    *count = graph_of(graph)->nodes.size();
    return cudaSuccess;
  });
}

}  // extern "C"
