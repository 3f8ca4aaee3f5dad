/// A kernel is a typed slot: one function pointer per kind of device, declared in the op's header, filled by one
/// registration line in the op's CPU source and one in its .cu. The compiler checks the signature at both ends.
#pragma once
#include <tandem/core/device.h>
#include <tandem/core/timeline.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace tandem {

struct KernelSlotBase {
  const char* name;
  void (*fn[kDeviceKinds])() = {};
  constexpr explicit KernelSlotBase(const char* n) : name(n) {}
};

/// Every slot that has at least one kernel.
TANDEM_API std::vector<KernelSlotBase*>& kernel_slots();

namespace detail {
[[noreturn]] TANDEM_API void no_kernel(const char* name, DeviceKind k);
TANDEM_API void add_slot(KernelSlotBase& s);
}  // namespace detail

template <class Signature>
struct KernelSlot;

template <class... Args>
struct KernelSlot<void(Args...)> : KernelSlotBase {
  using Function = void (*)(Args...);
  using KernelSlotBase::KernelSlotBase;

  /// The kernel for this kind of device. Throws Error "relu_forward: no kernel for cuda".
  Function get(DeviceKind k) const {
    auto f = reinterpret_cast<Function>(fn[int(k)]);
    if (!f) [[unlikely]]
      detail::no_kernel(name, k);
    return f;
  }
  template <class... A>
  void operator()(Device d, A&&... args) const {
    auto f = get(d.kind);
    TimelineSpan span(TimelineEvent::Kind::kernel, name);
    f(std::forward<A>(args)...);
  }
};

template <class... Args>
bool register_kernel(KernelSlot<void(Args...)>& s, DeviceKind k, std::type_identity_t<void (*)(Args...)> f) {
  s.fn[int(k)] = reinterpret_cast<void (*)()>(f);
  detail::add_slot(s);
  return true;
}

}  // namespace tandem

#define TANDEM_CONCAT_2(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_2(a, b)
/// TANDEM_KERNEL(relu_forward, cpu, relu_forward_cpu);
#define TANDEM_KERNEL(slot, kind, ...)                                      \
  [[maybe_unused]] static const bool TANDEM_CONCAT(registered_, __LINE__) = \
      ::tandem::register_kernel(slot, ::tandem::DeviceKind::kind, __VA_ARGS__)
