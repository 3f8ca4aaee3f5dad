#include <tandem/core/kernel.h>

#include <algorithm>
#include <chrono>

namespace tandem {

std::vector<KernelSlotBase*>& kernel_slots() {
  static auto* slots = new std::vector<KernelSlotBase*>;
  return *slots;
}

namespace detail {

std::atomic<KernelTimer> kernel_timer{nullptr};

void no_kernel(const char* name, DeviceKind k) { throw Error(message(name, ": no kernel for ", k)); }

void add_slot(KernelSlotBase& s) {
  auto& slots = kernel_slots();
  if (std::find(slots.begin(), slots.end(), &s) == slots.end()) slots.push_back(&s);
}

uint64_t now_ns() {
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace detail
}  // namespace tandem
