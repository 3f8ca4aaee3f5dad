#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/record.h>
#include <tandem/ops/concat.h>

#include <algorithm>

namespace tandem {
namespace {

constexpr OpId kCat{"cat"}, kStack{"stack"};

// Where each tensor lies in the joined one.
struct Pieces {
  int dim;
  bool new_dim;                // of stack: each piece is one index of `dim`, and lacks that dimension
  std::vector<int64_t> start;  // of each piece, and the end

  // Piece i of `whole`: a view without autograd.
  Tensor of(const Tensor& whole, size_t i) const {
    Dims shape = whole.shape(), strides = whole.strides();
    const int64_t offset = whole.impl()->offset + start[i] * strides[dim];
    if (new_dim) {
      shape.erase(dim);
      strides.erase(dim);
    } else {
      shape[dim] = start[i + 1] - start[i];
    }
    return whole.alias(shape, strides, offset);
  }
};

// PyTorch's legacy: a tensor of shape [0] joins with anything.
bool is_skipped(const Tensor& x) { return x.dim() == 1 && x.size(0) == 0; }

std::vector<Tensor> enter_all(OpId id, const std::vector<Tensor>& tensors) {
  check<ShapeError>(!tensors.empty(), "[", id.name, "] takes at least one tensor");
  std::vector<Tensor> xs;
  for (auto& t : tensors) {
    auto [x] = enter(id, t);
    check(x.defined(), "[", id.name, "] tensor ", xs.size(), " is undefined");
    xs.push_back(x);
  }
  for (auto& x : xs) require_same_device(id.name, {&xs[0], &x});
  return xs;
}

Dtype common_dtype(const std::vector<Tensor>& xs) {
  Dtype t = xs[0].dtype();
  for (auto& x : xs) t = promote(t, x.dtype());
  return t;
}

Tensor join(OpId id, const std::vector<Tensor>& xs, const Dims& shape, Layout layout, Pieces pieces) {
  Tensor y = empty(shape, {.dtype = common_dtype(xs), .device = xs[0].device(), .layout = layout});
  for (size_t i = 0; i < xs.size(); ++i)
    if (xs[i].numel()) copy_into({pieces.of(y, i), 0}, xs[i]);
  std::vector<TensorRef> inputs(xs.begin(), xs.end());
  return record(id.name, std::move(y), inputs, [pieces = std::move(pieces)](Tensor& gy, Targets t) {
    for (size_t i = 0; i < t.size(); ++i) {
      if (!t[i]) continue;
      if (t[i].shape().numel())
        t[i].give(pieces.of(gy, i));
      else
        t[i].out();  // of nothing: a gradient that is there
    }
  });
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dim_in) {
  const std::vector<Tensor> xs = enter_all(kCat, tensors);
  auto first = std::find_if_not(xs.begin(), xs.end(), is_skipped);
  if (first == xs.end()) first = xs.begin();
  const int dims = first->dim();
  check<ShapeError>(dims > 0, "[cat] takes no scalars; stack() joins them");
  const int dim = wrap_dim("cat", dim_in, dims);

  Dims shape = first->shape();
  Pieces pieces{dim, false, {0}};
  bool any_channels_last = false, all_channels_last = dims == 4;
  for (auto& x : xs) {
    int64_t length = 0;
    if (!is_skipped(x) || dims == 1) {
      Dims expected = first->shape();
      if (x.dim() == dims) expected[dim] = x.size(dim);
      check<ShapeError>(x.shape() == expected, "[cat] ", first->shape(), " and ", x.shape(),
                        " differ in another dimension than ", dim);
      length = x.size(dim);
      any_channels_last |= x.layout() == Layout::channels_last;
      all_channels_last &= x.is_contiguous(Layout::channels_last);
    }
    pieces.start.push_back(pieces.start.back() + length);
  }
  shape[dim] = pieces.start.back();
  const Layout layout = any_channels_last && all_channels_last ? Layout::channels_last : Layout::row_major;
  return join(kCat, xs, shape, layout, std::move(pieces));
}

Tensor stack(const std::vector<Tensor>& tensors, int dim_in) {
  const std::vector<Tensor> xs = enter_all(kStack, tensors);
  for (auto& x : xs)
    check<ShapeError>(x.shape() == xs[0].shape(), "[stack] ", xs[0].shape(), " and ", x.shape(), " differ");
  const int dim = wrap_dim("stack", dim_in, xs[0].dim() + 1);
  Dims shape = xs[0].shape();
  shape.insert(dim, int64_t(xs.size()));
  Pieces pieces{dim, true, {}};
  for (size_t i = 0; i <= xs.size(); ++i) pieces.start.push_back(int64_t(i));
  return join(kStack, xs, shape, Layout::row_major, std::move(pieces));
}

}  // namespace tandem
