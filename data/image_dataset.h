/// ImageDataset: labelled images held as bytes; what the readers of image files derive from.
#pragma once
#include <tandem/data/dataset.h>

namespace tandem::data {

/// Item i is image i, u8 [c,h,w], with its label, a scalar i64. Given to a loader with a transform, a batch is gathered
/// and augmented in one pass.
class TANDEM_API ImageDataset : public Dataset {
 public:
  /// images u8 [n,c,h,w], labels i64 [n]. Throws DtypeError or ShapeError for anything else.
  explicit ImageDataset(ByteImages data);

  int64_t size() const override { return data_.images.size(0); }
  Sample get(int64_t i) const override;
  std::optional<Batch> get_batch(std::span<const int64_t> indices) const override;
  const ByteImages* byte_images() const override { return &data_; }
  /// u8 [n,c,h,w]
  const Tensor& images() const { return data_.images; }
  /// i64 [n]
  const Tensor& labels() const { return data_.labels; }

 private:
  ByteImages data_;
};

}  // namespace tandem::data
