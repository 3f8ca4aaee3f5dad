/// Not installed: how a reduction over any set of dimensions becomes loops. The dimensions are merged to [outer, n,
/// inner], n the reduced ones: most sets in most layouts are that already, the others are copied to [outer, n, 1].
/// reduce_blocks then keeps the fold order (ops/fold.h) whichever it was.
#pragma once
#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/fold.h>

#include <optional>

namespace tandem::detail {

/// A set of dimensions of one tensor.
class DimSet {
 public:
  /// All of them where `dim` names none. Throws ShapeError for one out of range or named twice.
  DimSet(const char* op, const Dims& dim, int n_dims) {
    if (dim.empty()) bits_ = (1u << n_dims) - 1;
    for (int64_t d : dim) {
      const uint32_t bit = 1u << wrap_dim(op, d, n_dims);
      check<ShapeError>(!(bits_ & bit), "[", op, "] dimension ", d, " is named twice in ", dim);
      bits_ |= bit;
    }
  }
  bool has(int d) const { return bits_ >> d & 1; }

  Dims reduced_shape(const Dims& shape, bool keepdim) const {
    Dims r;
    for (int d = 0; d < shape.size(); ++d)
      if (!has(d))
        r.push_back(shape[d]);
      else if (keepdim)
        r.push_back(1);
    return r;
  }
  int64_t count(const Dims& shape) const {
    int64_t n = 1;
    for (int d = 0; d < shape.size(); ++d)
      if (has(d)) n *= shape[d];
    return n;
  }

 private:
  uint32_t bits_ = 0;
};

/// x as [outer, n, inner] in its own memory, kept and reduced dimensions each in their order; nothing where its memory
/// does not lie so.
inline std::optional<Tensor> view_blocks(const Tensor& x, DimSet reduced) {
  const Dims &shape = x.shape(), &strides = x.strides();
  const int64_t n = reduced.count(shape);
  if (x.numel() == 0) {
    int64_t outer = 1;
    for (int64_t k : reduced.reduced_shape(shape, false)) outer *= k;
    return x.alias({outer, n, 1}, {n, 1, 1}, x.impl()->offset);
  }
  int order[kMaxDims], dims = 0;  // from the outermost in memory to the innermost
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) order[dims++] = d;
  for (int i = 1; i < dims; ++i)
    for (int j = i; j > 0 && strides[order[j - 1]] < strides[order[j]]; --j) std::swap(order[j - 1], order[j]);

  int64_t inner = 1, expected = 1;
  int last[2] = {kMaxDims, kMaxDims};  // the dimension before this one, of the kept and of the reduced
  int turns = 0;                       // how often kept and reduced have taken turns
  for (int i = dims; i--;) {
    const int d = order[i];
    const bool is_reduced = reduced.has(d);
    if (strides[d] != expected || d > last[is_reduced]) return {};
    expected *= shape[d];
    last[is_reduced] = d;
    if (is_reduced != (turns == 1)) ++turns;  // inner kept: 0, reduced: 1, outer kept: 2
    if (turns > 2) return {};
    if (turns == 0) inner *= shape[d];
  }
  return x.alias({x.numel() / (n * inner), n, inner}, {n * inner, inner, 1}, x.impl()->offset);
}

/// A view with the reduced dimensions last.
inline Tensor reduced_last(const Tensor& x, DimSet reduced) {
  Dims shape, strides;
  for (bool want : {false, true})
    for (int d = 0; d < x.dim(); ++d)
      if (reduced.has(d) == want) {
        shape.push_back(x.shape()[d]);
        strides.push_back(x.strides()[d]);
      }
  return x.alias(shape, strides, x.impl()->offset);
}

/// x as [outer, n, inner], row-major.
inline Tensor blocks_of(const Tensor& x, DimSet reduced) {
  if (auto view = view_blocks(x, reduced)) return *view;
  const int64_t n = reduced.count(x.shape());
  return as_layout(reduced_last(x, reduced), Layout::row_major).alias({x.numel() / n, n, 1}, {n, 1, 1}, 0);
}

/// Calls f(Out) with o as [outer, n, inner]: in its own memory where that lies so, else in scratch that is then copied
/// or added into o. A tensor of the same shape and strides gives the same blocks.
template <class F>
void in_blocks(Out o, DimSet reduced, F&& f) {
  if (auto view = view_blocks(o.t, reduced)) return f(Out{*view, o.beta});
  const int64_t n = reduced.count(o.t.shape());
  Tensor scratch = empty({o.t.numel() / n, n, 1}, {.dtype = o.t.dtype(), .device = o.t.device()});
  f(Out{scratch, 0});
  Tensor target = reduced_last(o.t, reduced);
  copy_into({target, o.beta}, scratch.alias(target.shape(), dense_strides(target.shape(), Layout::row_major), 0));
}

inline Blocks block_sizes(const Tensor& x) { return {x.shape()[0], x.shape()[1], x.shape()[2]}; }

inline constexpr int64_t kReduceGrain = 1 << 14;  // elements

/// done(j, Op over f(element, j) of result j's elements), in the fold order. f and done run in parallel for different
/// j.
template <class Op, class F, class Done>
void reduce_blocks(const Tensor& x, F f, Done done) {
  const Blocks b = block_sizes(x);
  using Acc = typename Op::Acc;
  static_assert(sizeof(Acc) <= sizeof(double));
  const Parts parts(b.n, kReduceGrain / 4);
  const int64_t groups = b.groups();
  Tensor partial;  // [results, parts]
  if (parts.count > 1) partial = empty({b.outer * b.inner * parts.count}, {.dtype = Dtype::f64, .device = x.device()});
  Acc* kept = partial ? static_cast<Acc*>(partial.raw()) : nullptr;

  const int64_t work = std::max<int64_t>(1, parts.step * std::min<int64_t>(b.inner, kColumns));
  const int64_t grain = std::max<int64_t>(1, kReduceGrain / work);
  tandem::parallel_for(b.outer * parts.count * groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t o = u / (parts.count * groups), part = u / groups % parts.count, group = u % groups;
      const int64_t c0 = group * kColumns, j = o * b.inner + c0;
      const int64_t first = (o * b.n + parts.begin(part)) * b.inner + c0;
      const int columns = b.columns(group);
      Acc acc[kColumns];
      fold_block<Op>(
          b, parts.size(part), columns, [&](int64_t e, int c) { return f(first + e, j + c); }, acc);
      for (int c = 0; c < columns; ++c)
        if (kept)
          kept[(j + c) * parts.count + part] = acc[c];
        else
          done(j + c, acc[c]);
    }
  });
  if (!kept) return;
  for (int64_t j = 0; j < b.outer * b.inner; ++j) {
    Acc acc = kept[j * parts.count];
    for (int64_t k = 1; k < parts.count; ++k) acc = Op::combine(acc, kept[j * parts.count + k]);
    done(j, acc);
  }
}

/// f(element, j) for every element, in parallel.
template <class F>
void over_elements(Blocks b, F f) {
  const int64_t block = b.n * b.inner;
  tandem::parallel_for(b.outer * block, kReduceGrain, [=](int64_t begin, int64_t end) {
    while (begin < end) {  // a run in which the result moves with the element, or stays
      const int64_t o = begin / block, c = b.inner == 1 ? 0 : begin % b.inner;
      const int64_t stop = std::min(end, b.inner == 1 ? (o + 1) * block : begin - c + b.inner), j = o * b.inner + c;
      if (b.inner == 1) {
        for (int64_t e = begin; e < stop; ++e) f(e, j);
      } else {
        for (int64_t e = begin; e < stop; ++e) f(e, j + (e - begin));
      }
      begin = stop;
    }
  });
}

}  // namespace tandem::detail
