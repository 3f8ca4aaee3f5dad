/// Values on simulated devices, for tests: each owns its memory.
#pragma once
#include <tests/simgpu/samples/launch.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace simgpu_test {

class TestStream {
 public:
  explicit TestStream(int device = 0) {
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void wait() const { CHECK_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDisableTiming) { CHECK_CUDA(cudaEventCreateWithFlags(&event_, flags)); }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;

  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Pinned memory.
template <class T>
class HostValues {
 public:
  explicit HostValues(size_t n) : n_(n) { CHECK_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data_), n * sizeof(T))); }
  explicit HostValues(const std::vector<T>& values) : HostValues(values.size()) {
    std::memcpy(data_, values.data(), n_ * sizeof(T));
  }
  ~HostValues() { cudaFreeHost(data_); }
  HostValues(const HostValues&) = delete;
  HostValues& operator=(const HostValues&) = delete;

  T* data() const { return data_; }
  size_t bytes() const { return n_ * sizeof(T); }
  std::vector<T> values() const { return std::vector<T>(data_, data_ + n_); }

 private:
  T* data_ = nullptr;
  size_t n_;
};

/// Memory of the current device.
template <class T>
class DeviceValues {
 public:
  explicit DeviceValues(size_t n) : n_(n) { CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T))); }
  explicit DeviceValues(const std::vector<T>& values) : DeviceValues(values.size()) {
    const HostValues<T> staged(values);
    cudaStream_t stream = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMemcpyAsync(data_, staged.data(), staged.bytes(), cudaMemcpyHostToDevice, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  ~DeviceValues() { cudaFree(data_); }
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  operator T*() const { return data_; }
  size_t size() const { return n_; }
  size_t bytes() const { return n_ * sizeof(T); }

  /// What they are after all work of the stream.
  std::vector<T> values(cudaStream_t stream) const {
    const HostValues<T> staged(n_);
    CHECK_CUDA(cudaMemcpyAsync(staged.data(), data_, staged.bytes(), cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    return staged.values();
  }

 private:
  T* data_ = nullptr;
  size_t n_;
};

/// n values from `first` in steps.
template <class T>
std::vector<T> ramp(size_t n, T first = T(0), T step = T(1)) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = first + T(i) * step;
  return v;
}

}  // namespace simgpu_test
