/// Not installed: f16 and bf16 on the CPU. A kernel written for f32 and f64 is run in f32 on widened copies of its
/// half-precision operands, and each result is rounded once: exact by construction, and slow.
#pragma once
#include <tandem/core/copy.h>

#include <tuple>

namespace tandem {
namespace detail {

// An argument as the f32 kernel sees it: half tensors are replaced, everything else passes through.
template <class T>
struct Widened {
  T& value;
  explicit Widened(T& v) : value(v) {}
  T& get() { return value; }
  void finish() {}
};
template <>
struct Widened<const Tensor> {
  Tensor wide;
  explicit Widened(const Tensor& t) {
    wide = t && is_half(t.dtype()) ? copy_of(t, {.dtype = Dtype::f32, .device = t.device(), .layout = t.layout()}) : t;
  }
  const Tensor& get() { return wide; }
  void finish() {}
};
template <>
struct Widened<Tensor> {  // an output
  Tensor& narrow;
  Tensor wide;
  explicit Widened(Tensor& t) : narrow(t), wide(t) {
    if (t && is_half(t.dtype())) wide = copy_of(t, {.dtype = Dtype::f32, .device = t.device(), .layout = t.layout()});
  }
  Tensor& get() { return wide; }
  void finish() {
    if (!wide.is_same(narrow)) copy_into({narrow, 0}, wide);
  }
};
template <>
struct Widened<Out> {
  Out& narrow;
  Out wide;
  explicit Widened(Out& o) : narrow(o), wide(o) {
    if (!o.t || !is_half(o.t.dtype())) return;
    TensorOptions f32{.dtype = Dtype::f32, .device = o.t.device(), .layout = o.t.layout()};
    wide.t = o.beta != 0 ? copy_of(o.t, f32) : empty(o.t.shape(), f32);
  }
  Out& get() { return wide; }
  void finish() {
    if (!wide.t.is_same(narrow.t)) copy_into({narrow.t, 0}, wide.t);
  }
};

inline bool has_half(const Tensor& t) { return t && is_half(t.dtype()); }
inline bool has_half(const Out& o) { return has_half(o.t); }
template <class T>
bool has_half(const T&) {
  return false;
}

template <auto F, class Args>
struct WithHalf;
template <auto F, class... Args>
struct WithHalf<F, void(Args...)> {
  static void call(Args... args) {
    if (!(has_half(args) || ...)) [[likely]]
      return F(std::forward<Args>(args)...);
    std::tuple<Widened<std::remove_reference_t<Args>>...> w(args...);
    std::apply(
        [](auto&... a) {
          F(a.get()...);
          (a.finish(), ...);
        },
        w);
  }
};
template <auto F, class... Args>
bool register_with_half(KernelSlot<void(Args...)>& s) {
  return register_kernel(s, DeviceKind::cpu, &WithHalf<F, void(Args...)>::call);
}

}  // namespace detail
}  // namespace tandem

/// Registers a CPU kernel for f32 and f64 that serves f16 and bf16 too: TANDEM_CPU_KERNEL(relu_forward, relu_cpu);
#define TANDEM_CPU_KERNEL(slot, ...)                                        \
  [[maybe_unused]] static const bool TANDEM_CONCAT(registered_, __LINE__) = \
      ::tandem::detail::register_with_half<__VA_ARGS__>(slot)
