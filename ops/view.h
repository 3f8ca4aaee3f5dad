/// Views: other shapes, orders and parts of the same memory. All are differentiable; changing a view changes what it is
/// a view of. `reshape`, `flatten` and `contiguous` copy where strides leave no choice.
#pragma once
#include <tandem/core/tensor.h>

namespace tandem {

/// torch.reshape: the elements in row-major order under another shape, whatever the layout; at most one size may be -1
/// and is worked out. A view where strides allow (always of a row-major tensor), else a row-major copy. Throws
/// ShapeError where the counts differ.
TANDEM_API Tensor reshape(const Tensor& x, const Dims& shape);
/// The same as reshape: unlike torch's view it copies rather than fail.
TANDEM_API Tensor view(const Tensor& x, const Dims& shape);
/// torch.flatten: dimensions start_dim to end_dim become one. A scalar becomes [1].
TANDEM_API Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1);
/// torch.transpose: two dimensions change places.
TANDEM_API Tensor transpose(const Tensor& x, int dim0, int dim1);
/// torch.t: transpose of a matrix; vectors and scalars come back as they are. Throws ShapeError beyond two dimensions.
TANDEM_API Tensor t(const Tensor& x);
/// torch.permute: dimension i of the result is dims[i] of x.
TANDEM_API Tensor permute(const Tensor& x, const Dims& dims);
/// torch.unsqueeze: a dimension of size 1 at `dim`, from -(x.dim()+1) to x.dim().
TANDEM_API Tensor unsqueeze(const Tensor& x, int dim);
/// torch.squeeze: without the dimensions of size 1.
TANDEM_API Tensor squeeze(const Tensor& x);
/// Without dimension `dim` if its size is 1.
TANDEM_API Tensor squeeze(const Tensor& x, int dim);
/// torch.narrow: `length` elements from `start` on (negative: from the end). Throws ShapeError past the end.
TANDEM_API Tensor narrow(const Tensor& x, int dim, int64_t start, int64_t length);
/// torch.select, x[index] along `dim`: one dimension fewer; a negative index counts from the end.
TANDEM_API Tensor select(const Tensor& x, int dim, int64_t index);
/// x[start:end:step] along `dim`, by Python's rules: negative ends count from the end, ends out of range are cut.
/// `step` is at least 1.
TANDEM_API Tensor slice(const Tensor& x, int dim, int64_t start, int64_t end, int64_t step = 1);
/// torch.Tensor.expand: dimensions of size 1, and new ones in front, repeat without copies (stride 0); -1 keeps a size.
TANDEM_API Tensor expand(const Tensor& x, const Dims& shape);
/// torch.Tensor.contiguous: x itself where it is dense in that layout, else a copy that is. channels_last takes four
/// dimensions, else ShapeError.
TANDEM_API Tensor contiguous(const Tensor& x, Layout layout = Layout::row_major);

}  // namespace tandem
