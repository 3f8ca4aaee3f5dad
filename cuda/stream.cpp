#include <tandem/cuda/check.h>
#include <tandem/cuda/device_fault.h>
#include <tandem/cuda/stream.h>

namespace tandem::cuda_impl {

DeviceScope::DeviceScope(int device) {
  int now = 0;
  TANDEM_CUDA(cudaGetDevice(&now));
  if (now == device) return;
  TANDEM_CUDA(cudaSetDevice(device));
  before_ = now;
}
DeviceScope::~DeviceScope() {
  if (before_ >= 0) cudaSetDevice(before_);
}

void* StreamPool::system_allocate(size_t bytes) {
  check<NeedsMemory>(!stream_.capturing(), "[", context().op, "] ", stream_.device, ": the captured step needs ", bytes,
                     " bytes more than the steps before it");
  DeviceScope scope(stream_.device.index);
  void* p = nullptr;
  const cudaError_t error = cudaMalloc(&p, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  TANDEM_CUDA(error);
  return p;
}

void StreamPool::system_free(Block b) noexcept { cudaFree(b.data); }

void* StreamPool::unpooled_allocate(size_t bytes) {
  DeviceScope scope(stream_.device.index);
  void* p = nullptr;
  const cudaError_t error = cudaMallocAsync(&p, bytes, static_cast<cudaStream_t>(stream_.native()));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  TANDEM_CUDA(error);
  return p;
}

void StreamPool::unpooled_free(Block b) noexcept { cudaFreeAsync(b.data, static_cast<cudaStream_t>(stream_.native())); }

CudaStream::CudaStream(int index) : pool_(index, *this) {
  device = cuda(index);
  DeviceScope scope(index);
  TANDEM_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  TANDEM_CUDA(cudaEventCreateWithFlags(&tail_, cudaEventDisableTiming));
}

void CudaStream::wait(Stream& other) {
  if (&other == this) return;
  auto& source = static_cast<CudaStream&>(other);
  std::lock_guard l(source.tail_mutex_);
  {
    DeviceScope scope(source.device.index);
    TANDEM_CUDA(cudaEventRecord(source.tail_, source.stream_));
  }
  DeviceScope scope(device.index);
  TANDEM_CUDA(cudaStreamWaitEvent(stream_, source.tail_, 0));
}

void CudaStream::synchronize() {
  TANDEM_CUDA(cudaStreamSynchronize(stream_));
  throw_fault(device);
}

bool CudaStream::capturing() const {
  cudaStreamCaptureStatus status{};
  TANDEM_CUDA(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace tandem::cuda_impl
