/// Subset: some items of another dataset.
#pragma once
#include <tandem/data/dataset.h>
#include <tandem/data/held.h>

namespace tandem::data {

/// Item i is item indices[i] of another dataset (torch.utils.data.Subset). The other one is referred to if it was given
/// as an lvalue, and then must outlive this.
class TANDEM_API Subset : public Dataset {
 public:
  /// Throws Error for an index that the dataset does not have.
  Subset(Held<const Dataset> dataset, std::vector<int64_t> indices);

  int64_t size() const override { return int64_t(indices_.size()); }
  Sample get(int64_t i) const override;
  std::optional<Batch> get_batch(std::span<const int64_t> indices) const override;
  const ByteImages* byte_images() const override { return dataset_->byte_images(); }
  int64_t byte_row(int64_t i) const override;
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  std::vector<int64_t> mapped(std::span<const int64_t> indices) const;
  Held<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

}  // namespace tandem::data
