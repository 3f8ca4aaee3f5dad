/// The one kernel that understands arbitrary strides, and fill: core's own slots.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// y = beta * y + x, element by element, any strides, any dtypes (converted as a C++ cast does, floats to bf16/f16
/// rounded once). x and y have one shape.
inline constinit TANDEM_API KernelSlot<void(Out y, const Tensor& x)> copy_forward{"copy_forward"};
/// y = v everywhere; y has any strides.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, double v)> fill_forward{"fill_forward"};

/// Copies between any two devices; between kinds of device it is the other one's kernel that does it. Throws ShapeError
/// where shapes differ. Does not count as a change (see Tensor::copy_).
TANDEM_API void copy_into(Out y, const Tensor& x);
TANDEM_API void fill_into(Tensor& y, double v);

/// x where it is dense in that layout, else a copy that is. No autograd: for kernels and closures.
TANDEM_API Tensor as_layout(const Tensor& x, Layout l);
/// x where it is dense in either layout, else a row-major copy. No autograd.
TANDEM_API Tensor as_dense(const Tensor& x);
/// A copy with memory of its own. No autograd.
TANDEM_API Tensor copy_of(const Tensor& x, TensorOptions o);

/// Calls f(Out) with an output dense in layout l: `o` itself where it is, else scratch that is then copied or added
/// into o. For kernels that write one layout only.
template <class F>
void in_layout(Out o, Layout l, F&& f) {
  if (o.t.is_contiguous(l)) return f(o);
  Tensor scratch = empty(o.t.shape(), {.dtype = o.t.dtype(), .device = o.t.device(), .layout = l});
  f(Out{scratch, 0});
  copy_into(o, scratch);
}

}  // namespace tandem
