/// Dataset: what a user derives from. Two functions are needed, `size` and `get`; two more may be overridden for speed.
#pragma once
#include <tandem/data/batch.h>

#include <optional>
#include <span>

namespace tandem::data {

/// Images held as bytes, all in memory. A dataset that offers them lets the loader gather, crop, flip and normalise a
/// batch in one pass.
struct ByteImages {
  Tensor images;  // u8 [n,c,h,w]
  Tensor labels;  // i64 [n]
};

/// A set of items by index (torch.utils.data.Dataset).
///
/// A loader with workers calls the const functions from several threads at once. Random numbers drawn inside them from
/// `default_generator()` depend on (seed, epoch, index) alone: the same whatever the number of workers.
class TANDEM_API Dataset {
 public:
  virtual ~Dataset() = default;
  /// How many items there are.
  virtual int64_t size() const = 0;
  /// Item i, 0 <= i < size(). All items of a set have tensors of one shape, dtype and device.
  virtual Sample get(int64_t i) const = 0;
  /// Several items at once (PyTorch's __getitems__), where that is faster than one by one; `indices` of the result need
  /// not be set. Nothing, the default, means: call get and stack.
  virtual std::optional<Batch> get_batch(std::span<const int64_t>) const { return {}; }
  /// The bytes behind the items, or null, the default.
  virtual const ByteImages* byte_images() const { return nullptr; }
  /// Where item i stands in byte_images().
  virtual int64_t byte_row(int64_t i) const { return i; }

  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
};

/// Throws Error, naming the dataset, unless 0 <= i < size.
TANDEM_API void require_index(const char* name, int64_t i, int64_t size);

/// These tensors, all of one shape, dtype and device, along a new first dimension; no autograd. `name` and `indices`
/// are for the ShapeError, DtypeError or DeviceError where they differ.
TANDEM_API Tensor stack_items(const char* name, std::span<const Tensor> items, std::span<const int64_t> indices);

/// Rows of x along its first dimension, in this order; no autograd. Throws Error for a row that is not there.
TANDEM_API Tensor gather_rows(const Tensor& x, std::span<const int64_t> rows);

}  // namespace tandem::data
