#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/sum_to.h>
#include <tandem/ops/view.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr OpId kReshape{"reshape"};
constexpr OpId kFlatten{"flatten"};
constexpr OpId kTranspose{"transpose"};
constexpr OpId kPermute{"permute"};
constexpr OpId kUnsqueeze{"unsqueeze"};
constexpr OpId kSqueeze{"squeeze"};
constexpr OpId kNarrow{"narrow"};
constexpr OpId kSelect{"select"};
constexpr OpId kSlice{"slice"};
constexpr OpId kExpand{"expand"};
constexpr OpId kContiguous{"contiguous"};

// -- without autograd: for the ops and for their gradients --------------------------------------------------------

// Strides under which x's memory, read in row-major order of `shape`, is x in row-major order; false if there are none.
// The new dimensions are dealt out, last first, to chunks of x's dimensions that run on into each other.
bool view_strides(const Tensor& x, const Dims& shape, Dims& strides) {
  strides = dense_strides(shape, Layout::row_major);
  if (x.is_contiguous()) return true;
  const Dims &old_shape = x.shape(), &old_strides = x.strides();  // not contiguous: at least one dimension
  int d = shape.size() - 1;
  int64_t in_chunk = 1, dealt = 1, step = old_strides.back();
  for (int i = old_shape.size(); i--;) {
    in_chunk *= old_shape[i];
    if (i > 0 && (old_shape[i - 1] == 1 || old_strides[i - 1] == in_chunk * step)) continue;
    for (; d >= 0 && (dealt < in_chunk || shape[d] == 1); --d) {
      strides[d] = dealt * step;
      dealt *= shape[d];
    }
    if (dealt != in_chunk) return false;
    if (i > 0) step = old_strides[i - 1];
    in_chunk = dealt = 1;
  }
  return d < 0;
}

Tensor reshaped(const Tensor& x, const Dims& shape) {
  Dims strides;
  if (view_strides(x, shape, strides)) return x.alias(shape, strides, x.impl()->offset);
  Tensor rows = as_layout(x, Layout::row_major);
  return rows.alias(shape, dense_strides(shape, Layout::row_major), 0);
}

Tensor permuted(const Tensor& x, const Dims& dims) {
  Dims shape, strides;
  for (int64_t d : dims) {
    shape.push_back(x.shape()[int(d)]);
    strides.push_back(x.strides()[int(d)]);
  }
  return x.alias(shape, strides, x.impl()->offset);
}

// Every step-th element of a dimension, `length` of them from `start` on.
struct Range {
  int dim;
  int64_t start, length, step;
  Tensor of(const Tensor& x) const {
    Dims shape = x.shape(), strides = x.strides();
    shape[dim] = length;
    strides[dim] *= step;
    return x.alias(shape, strides, x.impl()->offset + start * x.strides()[dim]);
  }
};

Tensor without(const Tensor& x, int dim) {
  Dims shape = x.shape(), strides = x.strides();
  shape.erase(dim);
  strides.erase(dim);
  return x.alias(shape, strides, x.impl()->offset);
}
Tensor with(const Tensor& x, int dim) {
  Dims shape = x.shape(), strides = x.strides();
  int64_t stride = dim < x.dim() ? strides[dim] * shape[dim] : 1;
  shape.insert(dim, 1);
  strides.insert(dim, stride);
  return x.alias(shape, strides, x.impl()->offset);
}

// The gradient of a part: zero outside it. Later parts of the same tensor only add.
void add_to_part(Target& gx, const Range& range, const Tensor& g) {
  Out whole = gx.out();
  if (whole.beta == 0) fill_into(whole.t, 0);
  copy_into({range.of(whole.t), whole.beta}, g);
}

// -- shapes asked for ---------------------------------------------------------------------------------------------

// The shape with its -1 worked out.
Dims resolved(const char* op, const Tensor& x, Dims shape) {
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      check<ShapeError>(unknown < 0, "[", op, "] more than one -1 in ", shape);
      unknown = i;
    } else {
      check<ShapeError>(shape[i] >= 0, "[", op, "] negative size in ", shape);
      known *= shape[i];
    }
  }
  const int64_t n = x.numel();
  if (unknown >= 0) {
    check<ShapeError>(known > 0, "[", op, "] -1 in ", shape, " could be anything: the other sizes have no elements");
    check<ShapeError>(n % known == 0, "[", op, "] ", x.shape(), " has ", n, " elements, no multiple of ", known, " as ",
                      shape, " wants");
    shape[unknown] = n / known;
  } else {
    check<ShapeError>(known == n, "[", op, "] ", x.shape(), " has ", n, " elements, ", shape, " wants ", known);
  }
  return shape;
}

Tensor recorded_reshape(const char* op, const Tensor& x, const Dims& shape) {
  return record(op, reshaped(x, shape), {x}, [](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(reshaped(gy, t[0].shape()));
  });
}

Tensor recorded_permute(const char* op, const Tensor& x, const Dims& dims) {
  return record(op, permuted(x, dims), {x}, [dims](Tensor& gy, Targets t) {
    if (!t[0]) return;
    Dims inverse = dims;
    for (int i = 0; i < dims.size(); ++i) inverse[int(dims[i])] = i;
    t[0].give(permuted(gy, inverse));
  });
}

Tensor recorded_range(const char* op, const Tensor& x, const Range& range) {
  return record(op, range.of(x), {x}, [range](Tensor& gy, Targets t) {
    if (t[0]) add_to_part(t[0], range, gy);
  });
}

}  // namespace

// -- the ops ------------------------------------------------------------------------------------------------------

Tensor reshape(const Tensor& x_in, const Dims& shape) {
  auto [x] = enter(kReshape, x_in);
  return recorded_reshape("reshape", x, resolved("reshape", x, shape));
}

Tensor view(const Tensor& x, const Dims& shape) { return reshape(x, shape); }

Tensor flatten(const Tensor& x_in, int start_dim, int end_dim) {
  auto [x] = enter(kFlatten, x_in);
  const int from = wrap_dim("flatten", start_dim, x.dim()), to = wrap_dim("flatten", end_dim, x.dim());
  check<ShapeError>(from <= to, "[flatten] start_dim ", start_dim, " is after end_dim ", end_dim, " of ", x.shape());
  Dims shape;
  for (int i = 0; i < from; ++i) shape.push_back(x.shape()[i]);
  int64_t n = 1;
  for (int i = from; i <= to && i < x.dim(); ++i) n *= x.shape()[i];
  shape.push_back(n);
  for (int i = to + 1; i < x.dim(); ++i) shape.push_back(x.shape()[i]);
  return recorded_reshape("flatten", x, shape);
}

Tensor transpose(const Tensor& x_in, int dim0, int dim1) {
  auto [x] = enter(kTranspose, x_in);
  const int a = wrap_dim("transpose", dim0, x.dim()), b = wrap_dim("transpose", dim1, x.dim());
  Dims dims;
  for (int i = 0; i < x.dim(); ++i) dims.push_back(i == a ? b : i == b ? a : i);
  return recorded_permute("transpose", x, dims);
}

Tensor t(const Tensor& x) {
  check<ShapeError>(x.dim() <= 2, "[t] takes at most two dimensions, got ", x.shape());
  return x.dim() < 2 ? x : transpose(x, 0, 1);
}

Tensor permute(const Tensor& x_in, const Dims& dims_in) {
  auto [x] = enter(kPermute, x_in);
  check<ShapeError>(dims_in.size() == x.dim(), "[permute] ", dims_in, " names ", dims_in.size(), " dimensions, ",
                    x.shape(), " has ", x.dim());
  Dims dims;
  for (int64_t given : dims_in) {
    const int d = wrap_dim("permute", given, x.dim());
    check<ShapeError>(std::find(dims.begin(), dims.end(), d) == dims.end(), "[permute] ", dims_in, " names dimension ",
                      d, " twice");
    dims.push_back(d);
  }
  return recorded_permute("permute", x, dims);
}

Tensor unsqueeze(const Tensor& x_in, int dim) {
  auto [x] = enter(kUnsqueeze, x_in);
  const int d = wrap_dim("unsqueeze", dim, x.dim() + 1);
  return record("unsqueeze", with(x, d), {x}, [d](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(without(gy, d));
  });
}

Tensor squeeze(const Tensor& x_in) {
  auto [x] = enter(kSqueeze, x_in);
  Dims shape;
  for (int64_t n : x.shape())
    if (n != 1) shape.push_back(n);
  return recorded_reshape("squeeze", x, shape);  // dropping sizes of 1 is always a view
}

Tensor squeeze(const Tensor& x_in, int dim) {
  auto [x] = enter(kSqueeze, x_in);
  const int d = wrap_dim("squeeze", dim, x.dim());
  Dims shape = x.shape();
  if (x.dim() && shape[d] == 1) shape.erase(d);
  return recorded_reshape("squeeze", x, shape);
}

Tensor narrow(const Tensor& x_in, int dim, int64_t start, int64_t length) {
  auto [x] = enter(kNarrow, x_in);
  check<ShapeError>(x.dim() > 0, "[narrow] a scalar has no dimension to narrow");
  const int d = wrap_dim("narrow", dim, x.dim());
  const int64_t n = x.shape()[d], from = start < 0 ? start + n : start;
  check<ShapeError>(from >= 0 && length >= 0 && from <= n && length <= n - from, "[narrow] ", length, " elements from ",
                    start, " of dimension ", d, " of ", x.shape());
  return recorded_range("narrow", x, {d, from, length, 1});
}

Tensor select(const Tensor& x_in, int dim, int64_t index) {
  auto [x] = enter(kSelect, x_in);
  check<ShapeError>(x.dim() > 0, "[select] a scalar has no dimension to select from");
  const int d = wrap_dim("select", dim, x.dim());
  const int64_t n = x.shape()[d];
  check<ShapeError>(index >= -n && index < n, "[select] index ", index, " of dimension ", d, " of ", x.shape());
  const Range range{d, index < 0 ? index + n : index, 1, 1};
  return record("select", without(range.of(x), d), {x}, [range](Tensor& gy, Targets t) {
    if (t[0]) add_to_part(t[0], range, with(gy, range.dim));
  });
}

Tensor slice(const Tensor& x_in, int dim, int64_t start, int64_t end, int64_t step) {
  auto [x] = enter(kSlice, x_in);
  check<ShapeError>(x.dim() > 0, "[slice] a scalar has no dimension to slice");
  check<ShapeError>(step >= 1, "[slice] step ", step, ", it must be at least 1");
  const int d = wrap_dim("slice", dim, x.dim());
  const int64_t n = x.shape()[d];
  auto cut = [n](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  const int64_t from = cut(start), to = std::max(from, cut(end));
  return recorded_range("slice", x, {d, from, to == from ? 0 : (to - from - 1) / step + 1, step});
}

Tensor expand(const Tensor& x_in, const Dims& shape_in) {
  auto [x] = enter(kExpand, x_in);
  const int added = shape_in.size() - x.dim();
  check<ShapeError>(added >= 0, "[expand] ", shape_in, " has fewer dimensions than ", x.shape());
  Dims shape = shape_in, strides = shape_in;
  for (int i = 0; i < shape.size(); ++i) {
    const bool there = i >= added;
    const int64_t n = there ? x.shape()[i - added] : 1;
    if (there && shape[i] == -1) shape[i] = n;
    check<ShapeError>(shape[i] >= 0 && (shape[i] == n || n == 1), "[expand] ", x.shape(), " to ", shape_in, ": size ",
                      n, " to ", shape_in[i], " at dimension ", i);
    strides[i] = there && shape[i] == n ? x.strides()[i - added] : 0;
  }
  return record("expand", x.alias(shape, strides, x.impl()->offset), {x}, [](Tensor& gy, Targets t) {
    if (t[0]) give_sum_to(t[0], std::move(gy));
  });
}

Tensor contiguous(const Tensor& x_in, Layout layout) {
  auto [x] = enter(kContiguous, x_in);
  check<ShapeError>(layout == Layout::row_major || x.dim() == 4,
                    "[contiguous] channels_last takes four dimensions, got ", x.shape());
  if (x.is_contiguous(layout)) return x;
  return record("contiguous", as_layout(x, layout), {x}, [](Tensor& gy, Targets t) {
    if (t[0]) t[0].give(std::move(gy));
  });
}

// -- as members ---------------------------------------------------------------------------------------------------

Tensor Tensor::view(const Dims& shape) const { return tandem::reshape(*this, shape); }
Tensor Tensor::reshape(const Dims& shape) const { return tandem::reshape(*this, shape); }
Tensor Tensor::flatten(int start_dim, int end_dim) const { return tandem::flatten(*this, start_dim, end_dim); }
Tensor Tensor::transpose(int dim0, int dim1) const { return tandem::transpose(*this, dim0, dim1); }
Tensor Tensor::t() const { return tandem::t(*this); }
Tensor Tensor::permute(const Dims& dims) const { return tandem::permute(*this, dims); }
Tensor Tensor::unsqueeze(int dim) const { return tandem::unsqueeze(*this, dim); }
Tensor Tensor::squeeze(int dim) const { return tandem::squeeze(*this, dim); }
Tensor Tensor::narrow(int dim, int64_t start, int64_t length) const {
  return tandem::narrow(*this, dim, start, length);
}
Tensor Tensor::select(int dim, int64_t index) const { return tandem::select(*this, dim, index); }
Tensor Tensor::slice(int dim, int64_t start, int64_t end, int64_t step) const {
  return tandem::slice(*this, dim, start, end, step);
}
Tensor Tensor::expand(const Dims& shape) const { return tandem::expand(*this, shape); }
Tensor Tensor::contiguous(Layout layout) const { return tandem::contiguous(*this, layout); }

}  // namespace tandem
