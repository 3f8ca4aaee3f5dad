/// The line every op opens with: `auto [x, w] = enter(kConv2d, x_in, w_in);`. What happens to all ops alike happens
/// here: the op's name is noted for errors from below it, and the calling thread's replica puts its twins in. (Autocast
/// joins here.)
#pragma once
#include <tandem/core/replica.h>

#include <tuple>

namespace tandem {

/// One per op, constexpr, in its source: `constexpr OpId kConv2d{"conv2d"};`
struct OpId {
  const char* name;
};

template <size_t N>
struct Entered {
  std::array<const Tensor*, N> t;
  template <size_t I>
  const Tensor& get() const {
    return *t[I];
  }
};

template <class... T>
Entered<sizeof...(T)> enter(OpId id, const T&... t) {
  Context& c = context();
  c.op = id.name;
  if (!c.replica) [[likely]]
    return {{&t...}};
  return {{&twin(t, *c.replica)...}};
}

/// Throws DeviceError, naming the op and both devices, unless all defined tensors live on one device.
TANDEM_API void require_same_device(const char* op, std::initializer_list<const Tensor*> tensors);

}  // namespace tandem

template <size_t N>
struct std::tuple_size<tandem::Entered<N>> : std::integral_constant<size_t, N> {};
template <size_t I, size_t N>
struct std::tuple_element<I, tandem::Entered<N>> {
  using type = const tandem::Tensor&;
};
