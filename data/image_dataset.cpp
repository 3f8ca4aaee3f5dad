#include <tandem/data/image_dataset.h>

namespace tandem::data {

ImageDataset::ImageDataset(ByteImages data) : data_(std::move(data)) {
  const auto& [images, labels] = data_;
  check(images.defined() && labels.defined(), "[ImageDataset] takes images and labels");
  check<DtypeError>(images.dtype() == Dtype::u8 && labels.dtype() == Dtype::i64,
                    "[ImageDataset] takes images u8 and labels i64, got ", images.dtype(), " and ", labels.dtype());
  check<ShapeError>(
      images.dim() == 4 && labels.shape() == Dims{images.size(0)} && images.is_contiguous() && labels.is_contiguous(),
      "[ImageDataset] takes contiguous images [n,c,h,w] and labels [n], got ", images.shape(), " and ", labels.shape());
}

Sample ImageDataset::get(int64_t i) const {
  require_index("ImageDataset", i, size());
  const auto& [images, labels] = data_;
  Dims shape = images.shape(), strides = images.strides();
  shape.erase(0);
  strides.erase(0);
  return Sample(images.alias(shape, strides, images.impl()->offset + i * images.stride(0)),
                labels.alias({}, {}, labels.impl()->offset + i));
}

std::optional<Batch> ImageDataset::get_batch(std::span<const int64_t> indices) const {
  Batch b;
  b.input = gather_rows(data_.images, indices);
  b.target = gather_rows(data_.labels, indices);
  return b;
}

std::shared_ptr<const Dataset> on_device(std::shared_ptr<const Dataset> set, Device d) {
  const ByteImages* bytes = set ? set->byte_images() : nullptr;
  if (!bytes || bytes->images.device() == d) return set;
  check(set->size() == bytes->images.size(0), "[on_device] a part of a set: take the part of what is on the device");
  return std::make_shared<ImageDataset>(ByteImages{bytes->images.to(d), bytes->labels.to(d)});
}

}  // namespace tandem::data
