#include <tandem/core/kernel.h>

#include <algorithm>

namespace tandem {

std::vector<KernelSlotBase*>& kernel_slots() {
  static auto* slots = new std::vector<KernelSlotBase*>;
  return *slots;
}

namespace detail {

void no_kernel(const char* name, DeviceKind k) { throw Error(message(name, ": no kernel for ", k)); }

void add_slot(KernelSlotBase& s) {
  auto& slots = kernel_slots();
  if (std::find(slots.begin(), slots.end(), &s) == slots.end()) slots.push_back(&s);
}

}  // namespace detail
}  // namespace tandem
