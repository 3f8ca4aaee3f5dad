/// Two sizes of an image, height first: kernel sizes, strides, paddings.
#pragma once
#include <cstdint>

namespace tandem {

/// `3` stands for `{3, 3}` wherever a Pair is asked for.
struct Pair {
  int64_t h, w;
  constexpr Pair(int64_t both) : h(both), w(both) {}  // NOLINT: implicit, as PyTorch's arguments are
  constexpr Pair(int64_t height, int64_t width) : h(height), w(width) {}
  bool operator==(const Pair&) const = default;
};

}  // namespace tandem
