#include <tandem/core/backend.h>
#include <tandem/core/copy.h>
#include <tandem/data/dataset.h>

namespace tandem::data {
namespace {

// Row i of a tensor that is dense row-major, without autograd.
Tensor row_of(const Tensor& t, int64_t i) {
  Dims shape = t.shape(), strides = t.strides();
  shape.erase(0);
  strides.erase(0);
  return t.alias(shape, strides, t.impl()->offset + i * t.stride(0));
}

}  // namespace

void require_index(const char* name, int64_t i, int64_t size) {
  check(i >= 0 && i < size, "[", name, "] item ", i, " of ", size);
}

Tensor stack_items(const char* name, std::span<const Tensor> items, std::span<const int64_t> indices) {
  check(!items.empty(), "[", name, "] no items to stack");
  const Tensor& first = items[0];
  check(first.defined(), "[", name, "] item ", indices[0], " has an undefined tensor");
  Dims shape = first.shape();
  shape.insert(0, int64_t(items.size()));
  Tensor y = empty(shape, {.dtype = first.dtype(), .device = first.device()});
  const size_t bytes = size_t(first.numel()) * size_of(first.dtype());
  for (size_t k = 0; k < items.size(); ++k) {
    const Tensor& x = items[k];
    check(x.defined(), "[", name, "] item ", indices[k], " lacks a tensor that item ", indices[0], " has");
    check<ShapeError>(x.shape() == first.shape(), "[", name, "] item ", indices[k], " has shape ", x.shape(), ", item ",
                      indices[0], " has ", first.shape(), ": those of a batch must agree");
    check<DtypeError>(x.dtype() == first.dtype(), "[", name, "] item ", indices[k], " is ", x.dtype(), ", item ",
                      indices[0], " is ", first.dtype());
    check<DeviceError>(x.device() == first.device(), "[", name, "] item ", indices[k], " is on ", x.device(), ", item ",
                       indices[0], " on ", first.device());
    if (x.is_contiguous())
      copy_bytes(static_cast<std::byte*>(y.raw()) + k * bytes, y.device(), x.raw(), x.device(), bytes);
    else
      copy_into({row_of(y, int64_t(k)), 0}, x);
  }
  return y;
}

Tensor gather_rows(const Tensor& x, std::span<const int64_t> rows) {
  check<ShapeError>(x.dim() >= 1, "[gather_rows] a scalar has no rows");
  Dims shape = x.shape();
  shape[0] = int64_t(rows.size());
  Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
  const bool dense = x.is_contiguous();
  const size_t bytes = shape[0] ? y.storage()->bytes / size_t(shape[0]) : 0;
  for (size_t k = 0; k < rows.size(); ++k) {
    require_index("gather_rows", rows[k], x.size(0));
    if (dense)
      copy_bytes(static_cast<std::byte*>(y.raw()) + k * bytes, y.device(),
                 static_cast<const std::byte*>(x.raw()) + size_t(rows[k]) * bytes, x.device(), bytes);
    else
      copy_into({row_of(y, int64_t(k)), 0}, row_of(x, rows[k]));
  }
  return y;
}

}  // namespace tandem::data
