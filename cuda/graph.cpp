#include <tandem/cuda/check.h>
#include <tandem/cuda/graph.h>
#include <tandem/cuda/stream.h>

namespace tandem::cuda_impl {
namespace {

cudaStream_t native(Stream& s) { return static_cast<cudaStream_t>(s.native()); }

}  // namespace

// In thread-local mode: another thread, a loader's say, may allocate while this one captures.
void CudaGraph::begin(Stream& s) {
  DeviceScope scope(s.device.index);
  TANDEM_CUDA(cudaStreamBeginCapture(native(s), cudaStreamCaptureModeThreadLocal));
}

std::unique_ptr<Graph> CudaGraph::end(Stream& s) {
  DeviceScope scope(s.device.index);
  struct Recorded {
    cudaGraph_t graph{};
    ~Recorded() {
      if (graph) cudaGraphDestroy(graph);
    }
  } recorded;
  TANDEM_CUDA(cudaStreamEndCapture(native(s), &recorded.graph));
  std::unique_ptr<CudaGraph> made(new CudaGraph);
  TANDEM_CUDA(cudaGraphGetNodes(recorded.graph, nullptr, &made->nodes_));
  TANDEM_CUDA(cudaGraphInstantiate(&made->exec_, recorded.graph, 0));
  TANDEM_CUDA(cudaGraphUpload(made->exec_, native(s)));
  return made;
}

CudaGraph::~CudaGraph() {
  if (exec_) cudaGraphExecDestroy(exec_);
}

void CudaGraph::launch(Stream& s) {
  DeviceScope scope(s.device.index);
  TANDEM_CUDA(cudaGraphLaunch(exec_, native(s)));
}

}  // namespace tandem::cuda_impl
