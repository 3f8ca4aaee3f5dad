/// Not installed. Copies between pageable host memory and a device, through pinned buffers of our own that go round in
/// a ring: the copy engine works on one while the host fills or empties the next.
#pragma once
#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace tandem::cuda_impl {

/// Of one device.
class Staging {
 public:
  Staging();
  /// Returns once `from` is free to be used again; the device's memory is written in the stream's order.
  void to_device(void* to, const void* from, size_t bytes, cudaStream_t stream);
  /// Returns once `to` is written.
  void to_host(void* to, const void* from, size_t bytes, cudaStream_t stream);

 private:
  static constexpr size_t kChunk = 1 << 20;
  struct Chunk {
    std::byte* data = nullptr;  // pinned, taken at its first use
    cudaEvent_t free{};         // recorded after the copy that uses it
  };
  Chunk& next();  // waits until the device is done with it

  std::mutex m_;
  std::array<Chunk, 4> ring_;
  size_t turn_ = 0;
};

}  // namespace tandem::cuda_impl
