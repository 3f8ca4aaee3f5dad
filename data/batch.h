/// What a dataset gives: one Sample, or several of them stacked as a Batch.
#pragma once
#include <tandem/core/tensor.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem::data {

/// One item: a tensor, usually with a target, and whatever else belongs to it. Tensors may be on any device.
struct Sample {
  Tensor input;
  Tensor target;             // undefined where there is none
  std::vector<Tensor> more;  // further tensors, the same number in every item

  Sample(Tensor in) : input(std::move(in)) {}  // NOLINT: implicit, so that get() may return a tensor
  Sample(Tensor in, Tensor to, std::vector<Tensor> rest = {})
      : input(std::move(in)), target(std::move(to)), more(std::move(rest)) {}
  /// With a class label, which becomes a scalar i64 tensor on the input's device.
  Sample(Tensor in, int64_t label)
      : input(std::move(in)), target(full({}, double(label), {.dtype = Dtype::i64, .device = input.device()})) {}
};

/// Items stacked along a new first dimension. `auto& [images, labels] = batch` binds input and target.
struct Batch {
  Tensor input;                  // [count, ...]
  Tensor target;                 // [count, ...], undefined where the items have none
  std::vector<Tensor> more;      // [count, ...] each
  std::vector<int64_t> indices;  // which items these are

  int64_t count() const { return int64_t(indices.size()); }

  template <size_t I, class Self>
  static auto& part(Self& b) {
    static_assert(I < 2);
    if constexpr (I == 0)
      return b.input;
    else
      return b.target;
  }
};

template <size_t I>
Tensor& get(Batch& b) {
  return Batch::part<I>(b);
}
template <size_t I>
const Tensor& get(const Batch& b) {
  return Batch::part<I>(b);
}
template <size_t I>
Tensor&& get(Batch&& b) {
  return std::move(Batch::part<I>(b));
}

}  // namespace tandem::data

template <>
struct std::tuple_size<tandem::data::Batch> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, tandem::data::Batch> {
  using type = tandem::Tensor;
};
