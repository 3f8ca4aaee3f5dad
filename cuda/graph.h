/// Not installed. A recorded step as CUDA holds it.
#pragma once
#include <cuda_runtime.h>
#include <tandem/core/backend.h>

namespace tandem::cuda_impl {

class CudaGraph final : public Graph {
 public:
  /// Begins to record what is queued on the stream by any thread; other streams take part once they wait for it.
  static void begin(Stream& s);
  /// Ends the recording. Throws DeviceError where it was broken.
  static std::unique_ptr<Graph> end(Stream& s);

  ~CudaGraph() override;
  void launch(Stream& s) override;
  size_t nodes() const override { return nodes_; }

 private:
  CudaGraph() = default;
  cudaGraphExec_t exec_{};
  size_t nodes_ = 0;
};

}  // namespace tandem::cuda_impl
