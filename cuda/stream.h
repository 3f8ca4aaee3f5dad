/// Not installed. A CUDA stream and the pool that belongs to it: what is freed there is handed out again in the
/// stream's order, so nobody has to wait for it.
#pragma once
#include <cuda_runtime.h>
#include <tandem/core/backend.h>
#include <tandem/core/caching_pool.h>

#include <mutex>

namespace tandem::cuda_impl {

/// Sets the device for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = -1;  // -1: it was this one already
};

class CudaStream;

class StreamPool final : public CachingPool {
 public:
  StreamPool(int device, CudaStream& stream)
      : CachingPool(cuda(device), {.small = 64 << 10, .step = 512, .slab = 2 << 20}), stream_(stream) {}

 private:
  void* system_allocate(size_t bytes) override;
  void system_free(Block b) noexcept override;
  void* unpooled_allocate(size_t bytes) override;
  void unpooled_free(Block b) noexcept override;

  CudaStream& stream_;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int device);
  Pool& pool() override { return pool_; }
  void* native() override { return stream_; }
  void wait(Stream& other) override;
  void synchronize() override;
  bool capturing() const;

 private:
  cudaStream_t stream_{};
  std::mutex tail_mutex_;  // recording the event and waiting for it go together
  cudaEvent_t tail_{};
  StreamPool pool_;
};

}  // namespace tandem::cuda_impl
