/// Not installed: what ops of two broadcast tensors share. Their kernels get operands of one dtype and of the result's
/// shape, each dense in the result's layout but for stride 0 along the dimensions it was stretched in.
#pragma once
#include <tandem/core/copy.h>
#include <tandem/ops/sum_to.h>

namespace tandem {

/// The dtype of an op of two tensors (torch.result_type): their promotion, but a scalar (no dimensions) beside a tensor
/// with dimensions counts only where it is floating and the other is not, or the other is bool.
Dtype result_dtype(const Tensor& a, const Tensor& b);

/// x in this dtype, stretched to `shape`, dense in `layout` but for the stretched dimensions. No autograd.
Tensor stretched(const Tensor& x, Dtype dtype, const Dims& shape, Layout layout);

struct Operands {
  Tensor a, b;  // as the kernels want them
  Dims shape;   // of the result
  Layout layout;
  /// Memory for the result.
  Tensor result(Dtype dtype) const { return empty(shape, {.dtype = dtype, .device = a.device(), .layout = layout}); }
};
/// The result is channels-last where an operand of its shape is. Throws ShapeError where the shapes do not broadcast,
/// DeviceError where the devices differ.
Operands operands(const char* op, const Tensor& a, const Tensor& b, Dtype dtype);

/// The gradient of an operand: calls f(out, gy) with memory like gy's (dense), and brings it to the operand's shape,
/// layout and dtype. `last`: gy is not needed afterwards and f may be asked to write over it.
template <class F>
void give_stretched(Target& gx, Tensor& gy, bool last, F&& f) {
  if (gx.shape() == gy.shape()) {
    Out out = last ? gx.out_over(gy) : gx.out();
    if (out.t.dtype() == gy.dtype()) return in_layout(out, gy.layout(), [&](Out o) { f(o, gy); });
    Tensor g = empty_like(gy);
    f(Out{g, 0}, gy);
    return copy_into(out, g);
  }
  Tensor g = empty_like(gy);
  f(Out{g, 0}, gy);
  give_sum_to(gx, std::move(g));
}

}  // namespace tandem
