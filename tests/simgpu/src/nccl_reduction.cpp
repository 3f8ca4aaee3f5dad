#include "nccl_reduction.h"

#include <cstring>
#include <type_traits>

#include "nccl_types.h"

namespace simgpu {
namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

/// What an operation between two elements is computed in; the result is rounded to T each time.
template <class T>
auto wide(T x) {
  if constexpr (kIsHalf<T>) {
    return value(x);
  } else if constexpr (std::is_integral_v<T>) {
    return std::make_unsigned_t<T>(x);  // sums and products wrap around
  } else {
    return x;
  }
}

template <class T, class W>
T narrow(W x) {
  if constexpr (kIsHalf<T>) {
    return rounded<T>(x);
  } else {
    return T(x);
  }
}

template <class T>
bool less(T a, T b) {
  if constexpr (kIsHalf<T>) {
    return value(a) < value(b);
  } else {
    return a < b;
  }
}

template <class T>
T combine(Reduction::Kind kind, T a, T b) {
  switch (kind) {
    case Reduction::product: return narrow<T>(wide(a) * wide(b));
    case Reduction::maximum: return less(a, b) ? b : a;
    case Reduction::minimum: return less(b, a) ? b : a;
    default: return narrow<T>(wide(a) + wide(b));
  }
}

/// Floating-point averages are sums of values multiplied by 1 / ranks; those of integers are divided at the end.
template <class T>
void contribute(const Reduction& r, T* to, const T* from, size_t count, int ranks) {
  T scalar;
  if (r.kind == Reduction::scaled_sum) {
    std::memcpy(static_cast<void*>(&scalar), r.scalar_on_device ? r.scalar_on_device : r.scalar, sizeof scalar);
  } else if (r.kind == Reduction::average && !std::is_integral_v<T>) {
    using W = decltype(wide(scalar));
    scalar = narrow<T>(W(1) / W(ranks));
  } else {
    std::memcpy(static_cast<void*>(to), from, count * sizeof *to);
    return;
  }
  for (size_t i = 0; i < count; ++i) to[i] = narrow<T>(wide(from[i]) * wide(scalar));
}

template <class T>
void reduce(const Reduction& r, T* to, const std::vector<const void*>& from, size_t count) {
  std::memcpy(static_cast<void*>(to), from[0], count * sizeof *to);
  for (size_t k = 1; k < from.size(); ++k) {
    const auto* values = static_cast<const T*>(from[k]);
    for (size_t i = 0; i < count; ++i) to[i] = combine(r.kind, to[i], values[i]);
  }
  if constexpr (std::is_integral_v<T>)
    if (r.kind == Reduction::average)
      for (size_t i = 0; i < count; ++i) to[i] = T(to[i] / T(from.size()));
}

}  // namespace

void contribute(const Reduction& r, ncclDataType_t type, void* to, const void* from, size_t count, int ranks) {
  with_type(type, [&](auto t) {
    contribute(r, static_cast<decltype(t)*>(to), static_cast<const decltype(t)*>(from), count, ranks);
  });
}

void reduce(const Reduction& r, ncclDataType_t type, void* to, const std::vector<const void*>& from, size_t count) {
  with_type(type, [&](auto t) { reduce(r, static_cast<decltype(t)*>(to), from, count); });
}

}  // namespace simgpu
