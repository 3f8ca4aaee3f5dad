/// A number beside a tensor: `x * 2`, `x * 0.5`. Whether it is whole by its C++ type decides, as in PyTorch, what an
/// integer tensor becomes.
#pragma once
#include <tandem/core/dtype.h>

#include <concepts>

namespace tandem {

struct Scalar {
  double value;
  bool whole;  // of an integer's type, or bool
  template <std::integral T>
  constexpr Scalar(T v) : value(double(v)), whole(true) {}  // NOLINT: implicit
  template <std::floating_point T>
  constexpr Scalar(T v) : value(double(v)), whole(false) {}  // NOLINT: implicit
};

/// What an op of a tensor of this dtype and a number gives: floating tensors keep their dtype; integers do beside whole
/// numbers, else they become f32; bool beside a whole number becomes i64.
constexpr Dtype result_dtype(Dtype t, Scalar s) {
  if (is_floating(t)) return t;
  if (!s.whole) return Dtype::f32;
  return t == Dtype::boolean ? Dtype::i64 : t;
}

}  // namespace tandem
