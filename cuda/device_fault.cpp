#include <tandem/core/error.h>
#include <tandem/cuda/check.h>
#include <tandem/cuda/device_fault.h>

#include <atomic>
#include <mutex>

namespace tandem::cuda_impl {
namespace {

std::mutex m;
std::atomic<DeviceFault*> faults[kMaxDevices];  // made at a device's first check, and kept

std::string text_of(const DeviceFault& f) {
  switch (f.what) {
    case RangeOf::dimension:
      return message("[", f.op, "] index ", f.value, " (number ", f.place, ") is out of range for dimension ", f.dim,
                     " of size ", f.size);
    case RangeOf::classes:
      return message("[", f.op, "] target ", f.value, " of row ", f.place, " is none of the ", f.size, " classes");
    case RangeOf::images: break;
  }
  return message("[", f.op, "] row ", f.value, " of ", f.size, " images");
}

}  // namespace

DeviceFault* fault_of(Device d) {
  std::atomic<DeviceFault*>& fault = faults[d.index];
  if (DeviceFault* f = fault.load(std::memory_order_acquire)) return f;
  std::lock_guard l(m);
  if (DeviceFault* f = fault.load(std::memory_order_relaxed)) return f;
  void* p = nullptr;
  TANDEM_CUDA(cudaMallocHost(&p, sizeof(DeviceFault)));
  auto* f = new (p) DeviceFault{};
  fault.store(f, std::memory_order_release);
  return f;
}

void throw_fault(Device d) {
  DeviceFault* f = faults[d.index].load(std::memory_order_acquire);
  if (!f) return;
  std::atomic_ref<unsigned> state(f->state);
  if (state.load(std::memory_order_acquire) != DeviceFault::kNoted) return;
  const std::string text = text_of(*f);
  const RangeOf what = f->what;
  state.store(DeviceFault::kNone, std::memory_order_release);
  if (what == RangeOf::images) throw ShapeError(text);
  throw Error(text);
}

}  // namespace tandem::cuda_impl
