// The CUDA backend: devices, their streams, and bytes moved between them and the host. It registers itself when the
// library is loaded, and asks CUDA nothing before a device is asked for.
#include <tandem/core/backend.h>
#include <tandem/cuda/device_fault.h>
#include <tandem/cuda/graph.h>
#include <tandem/cuda/runtime.h>
#include <tandem/cuda/staging.h>
#include <tandem/cuda/stream.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace tandem::cuda_impl {
namespace {

class CudaBackend final : public Backend {
 public:
  int count() override { return devices().count; }

  std::string why_none() override { return devices().why_none; }

  Stream& default_stream(int index) override {
    std::lock_guard l(m_);
    if (!default_[index]) default_[index] = new CudaStream(index);
    return *default_[index];
  }

  Stream& new_stream(int index) override { return *new CudaStream(index); }

  void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) override {
    if (!to_device.is_cpu() && !from_device.is_cpu()) return between_devices(to, to_device, from, from_device, bytes);
    On on(to_device.is_cpu() ? from_device : to_device);
    check<Error>(!on.capturing(), "[", context().op, "] copies between the host and ", from_device,
                 to_device.is_cpu() ? "" : " ", to_device,
                 " inside a captured step, which replays on the device alone");
    if (to_device.is_cpu()) {
      staging(from_device.index).to_host(to, from, bytes, on);
      throw_fault(from_device);
    } else {
      staging(to_device.index).to_device(to, from, bytes, on);
    }
  }

  void zero_bytes(void* data, Device d, size_t bytes) override {
    On on(d);
    TANDEM_CUDA(cudaMemsetAsync(data, 0, bytes, on));
  }

  void begin_capture(Stream& s) override { CudaGraph::begin(s); }
  std::unique_ptr<Graph> end_capture(Stream& s) override { return CudaGraph::end(s); }

 private:
  struct Devices {
    int count = 0;
    std::string why_none;
  };
  static const Devices& devices() {
    static const Devices d = [] {
      Devices found;
      const cudaError_t error = cudaGetDeviceCount(&found.count);
      if (error != cudaSuccess) {
        found.count = 0;
        found.why_none = message(": ", cudaGetErrorString(error));
        cudaGetLastError();
      }
      found.count = std::min(found.count, kMaxDevices);
      return found;
    }();
    return d;
  }

  Staging& staging(int index) {
    std::lock_guard l(m_);
    if (!staging_[index]) staging_[index] = std::make_unique<Staging>();
    return *staging_[index];
  }

  static void between_devices(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
    if (to_device == from_device) {
      On on(to_device);
      TANDEM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, on));
      return;
    }
    Stream &there = current_stream(to_device), &here = current_stream(from_device);
    there.wait(here);  // the source is written
    {
      On on(to_device);
      TANDEM_CUDA(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes, on));
    }
    here.wait(there);  // and not used again before it is read
  }

  std::mutex m_;
  CudaStream* default_[kMaxDevices] = {};  // never destroyed: tensors may outlive main
  std::unique_ptr<Staging> staging_[kMaxDevices];
};

[[maybe_unused]] const bool registered = [] {
  register_backend(DeviceKind::cuda, *new CudaBackend);
  return true;
}();

}  // namespace

On::On(Device d) : device_(d), stream_(static_cast<cudaStream_t>(current_stream(d).native())) {
  int now = 0;
  TANDEM_CUDA(cudaGetDevice(&now));
  if (now != d.index) {
    TANDEM_CUDA(cudaSetDevice(d.index));
    before_ = now;
  }
  note_op(d.index);
}

On::~On() {
  if (before_ >= 0) cudaSetDevice(before_);
}

bool On::capturing() const {
  cudaStreamCaptureStatus status{};
  TANDEM_CUDA(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace tandem::cuda_impl
