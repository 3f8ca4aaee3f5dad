/// Rows of a table by number: what turns words into vectors. The work is index_select's, on the table's rows.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// For each of the i64 or i32 `indices`, of any shape, the row of weight [rows,width] that it names: [indices...,width]
/// (torch.nn.functional.embedding). The weight's gradient is dense; rows used more than once add up in the order of the
/// indices. Throws ShapeError where weight is not 2-D, DtypeError where indices are not integers, Error where an index
/// is negative or too large.
TANDEM_API Tensor embedding(const Tensor& indices, const Tensor& weight);

}  // namespace tandem
