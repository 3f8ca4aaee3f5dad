/// Not installed. An epoch's order beside images that lie on a device: which rows the next batch has is read there, so
/// a batch costs no copy from the host, and a step that takes one can be captured.
#pragma once
#include <tandem/data/batch.h>
#include <tandem/data/dataset.h>
#include <tandem/data/transform.h>

#include <span>

namespace tandem::data {

class TANDEM_API ResidentOrder {
 public:
  /// Room for epochs of `items` on device d. Its memory stays where it is.
  ResidentOrder(Device d, int64_t items);

  /// The rows of an epoch's items among the images, and what their random steps draw by.
  void begin(std::span<const int64_t> rows, const DrawKey& key);
  /// The next batch begins with the position-th item.
  void go_to(int64_t position);
  int64_t position() const { return position_; }

  /// Images and labels of the next n items, `indices` left empty.
  Batch next(const ByteImages& images, const Transform& transform, const DrawKey& key, int64_t n);
  /// A replay of a captured step has taken the next n.
  void count(int64_t n) { position_ += n; }

 private:
  Tensor lists_;   // i64 [2, items]: rows, samples
  Tensor cursor_;  // see ops/next_rows.h
  int64_t position_ = 0;
};

}  // namespace tandem::data
