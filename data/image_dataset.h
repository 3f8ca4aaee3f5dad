/// ImageDataset: labelled images held as bytes; what the readers of image files derive from.
#pragma once
#include <tandem/data/dataset.h>

#include <memory>

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

/// The same images and labels on that device, where a loader without workers then makes its batches, and a captured
/// step (core/step_graph.h) takes the next one at each replay. `set` itself where it has no bytes, or they are there
/// already.
TANDEM_API std::shared_ptr<const Dataset> on_device(std::shared_ptr<const Dataset> set, Device d);

}  // namespace tandem::data
