/// A parameter as an optimizer's kernel sees it, and the runs of parameters that one pass can take: values, gradients
/// and states lie flat in memories of their own, so neighbours in all of them are one long vector.
#pragma once
#include <tandem/core/node.h>

namespace tandem {

/// All rows of a kernel's call are of one device and dtype.
struct ParamRow {
  Leaf* leaf = nullptr;
  int64_t state_offset = 0;  // of its part of each state, in elements
  int group = 0;             // row of its options
  int64_t step = 0;          // how many updates its state has seen

  /// A parameter without a gradient is skipped: no decay, no momentum.
  bool active() const { return leaf->written; }
  int64_t numel() const { return leaf->meta.shape.numel(); }
  /// Elements from its start to where a neighbour begins. The gap holds nothing, and passes over it do no harm.
  int64_t extent() const {
    const size_t size = size_of(leaf->meta.dtype);
    return int64_t(aligned(size_t(numel()) * size) / size);
  }
  template <class T>
  T* value() const {
    return reinterpret_cast<T*>(leaf->value->data) + leaf->value_offset;
  }
  template <class T>
  T* grad() const {
    return leaf->window.ptr<T>();
  }
};

/// Calls f(first, rows, elements) for each run: `rows` active rows from the first-th on that have one group and one
/// step count and are neighbours in values, gradients and states.
template <class T, class F>
void for_each_run(std::span<const ParamRow> rows, F&& f) {
  for (size_t i = 0; i < rows.size();) {
    const ParamRow& r = rows[i];
    if (!r.active()) {
      ++i;
      continue;
    }
    int64_t elements = r.numel(), next = r.extent();
    size_t j = i + 1;
    for (; j < rows.size(); ++j) {
      const ParamRow& q = rows[j];
      if (!q.active() || q.group != r.group || q.step != r.step || q.value<T>() != r.value<T>() + next ||
          q.grad<T>() != r.grad<T>() + next || q.state_offset != r.state_offset + next)
        break;
      elements = next + q.numel();
      next += q.extent();
    }
    f(i, j - i, elements);
    i = j;
  }
}

}  // namespace tandem
