/// Whether two tensors agree, and if not by how much and where.
#pragma once
#include <tandem/core/tensor.h>

#include <string>

namespace tandem::golden {

/// |got - want| <= absolute + relative * |want| + of_largest * (the largest finite |want| of the tensor).
struct Tolerance {
  double absolute = 0, relative = 0, of_largest = 0;
};

/// Empty where they agree. Shapes must be equal, and integer values; a NaN equals a NaN.
std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance);
std::string difference(const std::vector<double>& got, const std::vector<double>& want, Tolerance tolerance);

}  // namespace tandem::golden
