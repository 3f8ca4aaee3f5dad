/// Not installed. What every kernel source opens with: the calling thread working on a tensor's device and stream.
#pragma once
#include <tandem/core/backend.h>
#include <tandem/core/copy.h>
#include <tandem/core/kernel.h>
#include <tandem/core/record.h>
#include <tandem/cuda/check.h>

namespace tandem::cuda_impl {

/// The calling thread works on `d` until the scope ends; the one it worked on before is then set again. Converts to
/// the device's current stream.
class On {
 public:
  explicit On(Device d);
  explicit On(const Tensor& t) : On(t.device()) {}
  ~On();
  On(const On&) = delete;
  On& operator=(const On&) = delete;

  operator cudaStream_t() const { return stream_; }
  Device device() const { return device_; }
  bool capturing() const;  // a step graph records what is queued here

 private:
  Device device_;
  int before_ = -1;  // -1: it was this device already
  cudaStream_t stream_;
};

}  // namespace tandem::cuda_impl
