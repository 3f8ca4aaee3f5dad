/// TensorDataset: tensors whose first dimension counts the items.
#pragma once
#include <tandem/data/dataset.h>

namespace tandem::data {

/// Item i is row i of each tensor (torch.utils.data.TensorDataset): the first is the input, the second the target, the
/// others are `more`. Tensors may be on any device; items are views of them.
class TANDEM_API TensorDataset : public Dataset {
 public:
  /// Throws ShapeError where the first dimensions differ, Error without a tensor.
  explicit TensorDataset(std::vector<Tensor> tensors);
  explicit TensorDataset(Tensor input) : TensorDataset(std::vector{std::move(input)}) {}
  TensorDataset(Tensor input, Tensor target) : TensorDataset(std::vector{std::move(input), std::move(target)}) {}

  int64_t size() const override { return tensors_[0].size(0); }
  Sample get(int64_t i) const override;
  std::optional<Batch> get_batch(std::span<const int64_t> indices) const override;
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

}  // namespace tandem::data
