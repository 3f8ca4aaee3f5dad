#include <tandem/core/error.h>
#include <tandem/cuda/check.h>
#include <tandem/cuda/device_fault.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace tandem::cuda_impl {
namespace {

std::mutex m;
std::atomic<DeviceFault*> faults[kMaxDevices];  // made at a device's first check, and kept

std::string lost[kMaxDevices];  // why a collective was
std::atomic<bool> any_lost{false};

void throw_lost(Device d) {
  std::unique_lock l(m);
  const std::string why = std::exchange(lost[d.index], {});
  any_lost = std::ranges::any_of(lost, [](auto& s) { return !s.empty(); });
  l.unlock();
  check<CommError>(why.empty(), "what a collective on ", d, " was to write is lost: ", why);
}

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

void note_lost_collective(Device d, const std::string& why) {
  std::lock_guard l(m);
  if (lost[d.index].empty()) lost[d.index] = why;
  any_lost = true;
}

void forget_lost_collectives(Device d) {
  std::lock_guard l(m);
  lost[d.index].clear();
}

void throw_fault(Device d) {
  if (any_lost.load(std::memory_order_acquire)) throw_lost(d);
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
