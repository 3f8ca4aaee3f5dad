#include <tandem/core/enter.h>
#include <tandem/ops/broadcast.h>

namespace tandem {

Dtype result_dtype(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return a.dtype();
  if ((a.dim() == 0) != (b.dim() == 0)) {
    const Dtype tensor = a.dim() ? a.dtype() : b.dtype(), scalar = a.dim() ? b.dtype() : a.dtype();
    if (is_floating(tensor) || (tensor != Dtype::boolean && !is_floating(scalar))) return tensor;
  }
  return promote(a.dtype(), b.dtype());
}

Tensor stretched(const Tensor& x, Dtype dtype, const Dims& shape, Layout layout) {
  Tensor t = x.dtype() == dtype ? x : copy_of(x, {.dtype = dtype, .device = x.device(), .layout = x.layout()});
  if (t.shape() == shape) return as_layout(t, layout);
  const int added = shape.size() - t.dim();
  Dims own = shape, strides = shape;  // with sizes of 1 in front
  for (int i = 0; i < shape.size(); ++i) {
    own[i] = i < added ? 1 : t.shape()[i - added];
    strides[i] = i < added ? 0 : t.strides()[i - added];
  }
  if (!is_dense(own, strides, layout)) {
    t = as_layout(t.alias(own, strides, t.impl()->offset), layout);
    strides = t.strides();
  }
  for (int i = 0; i < shape.size(); ++i)
    if (own[i] == 1) strides[i] = 0;
  return t.alias(shape, strides, t.impl()->offset);
}

Operands operands(const char* op, const Tensor& a, const Tensor& b, Dtype dtype) {
  require_same_device(op, {&a, &b});
  Operands o;
  o.shape = a.shape() == b.shape() ? a.shape() : broadcast_shapes(op, a.shape(), b.shape());
  auto channels_last = [&](const Tensor& t) { return t.layout() == Layout::channels_last && t.shape() == o.shape; };
  o.layout = channels_last(a) || channels_last(b) ? Layout::channels_last : Layout::row_major;
  o.a = stretched(a, dtype, o.shape, o.layout);
  o.b = stretched(b, dtype, o.shape, o.layout);
  return o;
}

}  // namespace tandem
