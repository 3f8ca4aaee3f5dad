/// Not installed. Conversions of dtypes, as a C++ cast does them; floats to half precision rounded once.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem::cuda_impl {

/// y = x of another dtype; both on one device, dense in one layout.
void convert(const Tensor& y, const Tensor& x);

}  // namespace tandem::cuda_impl
