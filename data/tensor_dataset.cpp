#include <tandem/data/tensor_dataset.h>

namespace tandem::data {

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  check(!tensors_.empty(), "[TensorDataset] takes at least one tensor");
  for (const Tensor& t : tensors_) {
    check(t.defined(), "[TensorDataset] an undefined tensor");
    check<ShapeError>(t.dim() >= 1, "[TensorDataset] a scalar has no items");
    check<ShapeError>(t.size(0) == tensors_[0].size(0),
                      "[TensorDataset] first dimensions differ: ", tensors_[0].shape(), " and ", t.shape());
  }
}

Sample TensorDataset::get(int64_t i) const {
  require_index("TensorDataset", i, size());
  auto row = [&](const Tensor& t) {
    Dims shape = t.shape(), strides = t.strides();
    shape.erase(0);
    strides.erase(0);
    return t.alias(shape, strides, t.impl()->offset + i * t.stride(0));
  };
  Sample s(row(tensors_[0]));
  if (tensors_.size() > 1) s.target = row(tensors_[1]);
  for (size_t k = 2; k < tensors_.size(); ++k) s.more.push_back(row(tensors_[k]));
  return s;
}

std::optional<Batch> TensorDataset::get_batch(std::span<const int64_t> indices) const {
  Batch b;
  b.input = gather_rows(tensors_[0], indices);
  if (tensors_.size() > 1) b.target = gather_rows(tensors_[1], indices);
  for (size_t k = 2; k < tensors_.size(); ++k) b.more.push_back(gather_rows(tensors_[k], indices));
  return b;
}

}  // namespace tandem::data
