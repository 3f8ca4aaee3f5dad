#include <tandem/data/subset.h>

namespace tandem::data {

Subset::Subset(Held<const Dataset> dataset, std::vector<int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  check(bool(dataset_), "[Subset] of no dataset");
  for (int64_t i : indices_) require_index("Subset", i, dataset_->size());
}

Sample Subset::get(int64_t i) const {
  require_index("Subset", i, size());
  return dataset_->get(indices_[size_t(i)]);
}

std::vector<int64_t> Subset::mapped(std::span<const int64_t> indices) const {
  std::vector<int64_t> there;
  there.reserve(indices.size());
  for (int64_t i : indices) {
    require_index("Subset", i, size());
    there.push_back(indices_[size_t(i)]);
  }
  return there;
}

std::optional<Batch> Subset::get_batch(std::span<const int64_t> indices) const {
  return dataset_->get_batch(mapped(indices));
}

int64_t Subset::byte_row(int64_t i) const {
  require_index("Subset", i, size());
  return dataset_->byte_row(indices_[size_t(i)]);
}

}  // namespace tandem::data
