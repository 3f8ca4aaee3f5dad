/// What core asks of a kind of device that is not the CPU: streams, pools and byte copies. A backend registers itself
/// when its code is loaded. CUDA's stands in a library of its own, libtandem_cuda beside this one (or the file that
/// TANDEM_CUDA_LIBRARY names), opened when a CUDA device is first asked for; without it such a device is a DeviceError.
///
/// Stream ownership: a stream belongs to a device and is shared by all threads; the context may override the one a
/// thread uses. Each stream owns a pool, and memory is reused in that stream's order, so whoever uses memory on another
/// stream makes the owner's stream wait.
#pragma once
#include <tandem/core/context.h>
#include <tandem/core/pool.h>

#include <memory>

namespace tandem {

/// Work in order. Never destroyed.
struct TANDEM_API Stream {
  Device device;
  virtual ~Stream() = default;
  virtual Pool& pool() = 0;
  /// The library's own handle (a cudaStream_t).
  virtual void* native() = 0;
  /// What is queued here from now on runs after all that is queued there by now.
  virtual void wait(Stream& other) = 0;
  virtual void synchronize() = 0;
};

/// Work that was recorded from streams and runs again as one launch, on one device or several.
struct TANDEM_API Graph {
  virtual ~Graph() = default;
  /// On `s`, in its order.
  virtual void launch(Stream& s) = 0;
  /// Kernels, copies and library calls in it.
  virtual size_t nodes() const = 0;
};

/// A pool would have to grow while its stream is being captured, which CUDA does not allow.
struct TANDEM_API NeedsMemory : OutOfMemoryError {
  using OutOfMemoryError::OutOfMemoryError;
};

struct TANDEM_API Backend {
  virtual ~Backend() = default;
  virtual int count() = 0;
  /// Why count() is 0, to go on a message: ": no driver", say.
  virtual std::string why_none() { return ""; }
  virtual Stream& default_stream(int index) = 0;
  virtual Stream& new_stream(int index) = 0;
  /// On the current streams; returns with host memory free to be used again.
  virtual void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) = 0;
  virtual void zero_bytes(void* data, Device d, size_t bytes) = 0;
  /// From here on what is queued on `s`, and on streams made to wait for it, is recorded and does not run.
  virtual void begin_capture(Stream& s) = 0;
  /// Ends it. Throws Error where the capture was broken, or a stream that took part has not been waited for.
  virtual std::unique_ptr<Graph> end_capture(Stream& s) = 0;
};

/// Makes `b` the backend of its kind; it must outlive the process's last tensor.
TANDEM_API void register_backend(DeviceKind kind, Backend& b);
/// Null where there is none.
TANDEM_API Backend* find_backend(DeviceKind kind);
/// Throws DeviceError, saying what is missing, where there is no backend or no such device.
TANDEM_API Backend& backend(Device d);
/// The context's stream of this device, else the device's own.
TANDEM_API Stream& current_stream(Device d);

/// Raw bytes between any two devices.
TANDEM_API void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
TANDEM_API void zero_bytes(void* data, Device d, size_t bytes);

/// This thread works on `s` for a scope, ordered after what it had queued before and before what it queues after.
class StreamGuard {
 public:
  explicit StreamGuard(Stream& s) : s_(s), own_(current_stream(s.device)), was_(context().stream[s.device.index]) {
    s_.wait(own_);
    context().stream[s_.device.index] = &s_;
  }
  ~StreamGuard() {
    context().stream[s_.device.index] = was_;
    own_.wait(s_);
  }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream& s_;
  Stream& own_;
  Stream* was_;
};

}  // namespace tandem
