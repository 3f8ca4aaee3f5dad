#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/embedding.h>
#include <tandem/ops/index.h>
#include <tandem/ops/index_values.h>

namespace tandem {

constexpr OpId kEmbedding{"embedding"};

Tensor embedding(const Tensor& indices_in, const Tensor& weight_in) {
  auto [indices, weight] = enter(kEmbedding, indices_in, weight_in);
  require_same_device("embedding", {&indices, &weight});
  check<ShapeError>(weight.dim() == 2, "[embedding] the weight is [rows,width], got ", weight.shape());
  Tensor which = detail::index_values("embedding", indices);
  const Dims rows{which.numel(), weight.size(1)};
  which = which.alias({which.numel()}, {1}, which.impl()->offset);
  Dims shape = indices.shape();
  shape.push_back(weight.size(1));
  Tensor y = empty(shape, {.dtype = weight.dtype(), .device = weight.device()});
  Tensor flat = y.alias(rows, dense_strides(rows, Layout::row_major), 0);
  index_select_forward(weight.device(), flat, as_layout(weight, Layout::row_major), 0, which);
  return record("embedding", y, {weight}, [which = Saved("embedding", which), rows](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Tensor g = as_layout(gy, Layout::row_major);
    Tensor flat = g.alias(rows, dense_strides(rows, Layout::row_major), g.impl()->offset);
    index_select_backward_data(g.device(), t[0].out(), flat, 0, which());
  });
}

}  // namespace tandem
