/// Picking elements by number: whole slices (index_select) or single elements (gather). Gradients of elements picked
/// more than once are added up in the order of the indices, whatever the number of threads. An index out of range is an
/// Error; on CUDA it picks zeros, and the error is thrown where the host next waits for the device.
#pragma once
#include <tandem/core/kernel.h>
#include <tandem/core/node.h>

namespace tandem {

/// y's slice j along dim is x's slice index[j]. y and x are dense in one layout, of one dtype (any); index is i64,
/// [n]. Throws Error where an index is out of range.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, int dim, const Tensor& index)>
    index_select_forward{"index_select_forward"};
/// gx's slice index[j] takes gy's slice j; gx and gy are dense in one layout.
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, int dim, const Tensor& index)>
    index_select_backward_data{"index_select_backward_data"};

/// y[i][j][k] = x[i][index[i][j][k]][k] for dim = 1. All row-major; index is i64 of y's shape, which is at most x's in
/// the other dimensions. Throws Error where an index is out of range.
inline constinit TANDEM_API KernelSlot<void(Tensor& y, const Tensor& x, int dim, const Tensor& index)> gather_forward{
    "gather_forward"};
/// gx[i][index[i][j][k]][k] takes gy[i][j][k].
inline constinit TANDEM_API KernelSlot<void(Out gx, const Tensor& gy, int dim, const Tensor& index)>
    gather_backward_data{"gather_backward_data"};

/// The slices of x along `dim` that the one-dimensional (or scalar) i64 or i32 `index` names, in its order
/// (torch.index_select); any dtype, x's layout is kept. Throws ShapeError where index has more dimensions, DtypeError
/// where it is of another dtype, Error where one of its values is negative or too large.
TANDEM_API Tensor index_select(const Tensor& x, int dim, const Tensor& index);

/// Element by element along `dim` (torch.gather): the result has index's shape, which has as many dimensions as x and
/// is at most x's in all but `dim`. Throws as index_select does.
TANDEM_API Tensor gather(const Tensor& x, int dim, const Tensor& index);

}  // namespace tandem
