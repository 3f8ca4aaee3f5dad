#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/gemm.h>
#include <tandem/ops/matmul.h>
#include <tandem/ops/product_batch.h>
#include <tandem/ops/widen.h>

#include <algorithm>

namespace tandem {

constexpr OpId kMatmul{"matmul"};

namespace {

// x where its matrices lie by rows or by columns, else a row-major copy.
Tensor as_matrices(const Tensor& x) {
  const detail::Matrices s(x);
  return s.by_rows() || s.by_cols() ? x : as_layout(x, Layout::row_major);
}

// The same matrices with leading dimensions of 1 in front.
Tensor with_dims(const Tensor& x, int dims) {
  Dims shape = x.shape(), strides = x.strides();
  while (shape.size() < dims) {
    shape.insert(0, 1);
    strides.insert(0, 0);
  }
  return x.alias(shape, strides, x.impl()->offset);
}

Tensor as_row(const Tensor& v) { return v.alias({1, v.shape()[0]}, {0, v.strides()[0]}, v.impl()->offset); }
Tensor as_column(const Tensor& v) { return v.alias({v.shape()[0], 1}, {v.strides()[0], 0}, v.impl()->offset); }

// A gradient's memory as the row-major matrices that the kernels write.
template <class F>
void write_matrices(const Out& o, const Dims& shape, F&& f) {
  in_layout(o, Layout::row_major, [&](const Out& dense) {
    f(Out{dense.t.alias(shape, dense_strides(shape, Layout::row_major), dense.t.impl()->offset), dense.beta});
  });
}

Dims batch_of(const Tensor& x) { return Dims(std::span<const int64_t>(x.shape().begin(), size_t(x.dim() - 2))); }

}  // namespace

Tensor matmul(const Tensor& a_in, const Tensor& b_in) {
  auto [a, b] = enter(kMatmul, a_in, b_in);
  check<ShapeError>(a.dim() > 0 && b.dim() > 0, "[matmul] takes vectors and matrices, got ", a.shape(), " and ",
                    b.shape());
  check<DtypeError>(is_floating(a.dtype()) && a.dtype() == b.dtype(),
                    "[matmul] takes floating tensors of one type, got ", a.dtype(), " and ", b.dtype());
  require_same_device("matmul", {&a, &b});
  Tensor am = a.dim() == 1 ? as_row(a) : a, bm = b.dim() == 1 ? as_column(b) : b;
  const int64_t k = am.shape().back();
  check<ShapeError>(k == bm.shape()[bm.dim() - 2], "[matmul] ", a.shape(), " by ", b.shape(), ": ", k, " columns, ",
                    bm.shape()[bm.dim() - 2], " rows");
  Dims full = broadcast_shapes("matmul", batch_of(am), batch_of(bm));
  full.push_back(am.shape()[am.dim() - 2]);
  full.push_back(bm.shape().back());
  am = with_dims(as_matrices(am), full.size());
  bm = with_dims(as_matrices(bm), full.size());
  Tensor y = empty(full, {.dtype = a.dtype(), .device = a.device()});
  matmul_forward(a.device(), y, am, bm);

  Dims shape = full;  // without what stood for a vector's missing dimension
  if (b.dim() == 1) shape.erase(shape.size() - 1);
  if (a.dim() == 1) shape.erase(full.size() - 2);
  if (shape.size() != full.size()) y = y.alias(shape, dense_strides(shape, Layout::row_major), 0);
  return record("matmul", y, {a, b}, [a = Saved("matmul", am), b = Saved("matmul", bm), full](Tensor& gy, Targets t) {
    Tensor g = as_layout(gy, Layout::row_major);
    g = g.alias(full, dense_strides(full, Layout::row_major), g.impl()->offset);
    if (t[0]) write_matrices(t[0].out(), a().shape(), [&](Out ga) { matmul_backward_a(g.device(), ga, g, b()); });
    if (t[1]) write_matrices(t[1].out(), b().shape(), [&](Out gb) { matmul_backward_b(g.device(), gb, g, a()); });
  });
}

namespace {

constexpr int64_t kBigProduct = 1 << 22;  // multiplications that are shared among threads by themselves
constexpr int64_t kGrain = 1 << 16;       // multiplications worth a thread

// The products of a batch, by ops/gemm.h.
template <class T>
struct BatchedProduct {
  const detail::ProductBatch& batch;
  detail::Product<T> p;

  BatchedProduct(const detail::ProductBatch& of, const Out& c, const Tensor& a, const Tensor& b)
      : batch(of),
        p{.m = of.m,
          .n = of.n,
          .k = of.k,
          .a = {a.ptr<T>(), of.a.stride, of.a.transposed},
          .b = {b.ptr<T>(), of.b.stride, of.b.transposed},
          .c = c.t.ptr<T>(),
          .c_stride = of.c_stride,
          .add = c.beta != 0,
          .device = c.t.device()} {}

  detail::Product<T> at(const detail::ProductBatch::Steps& from) const {
    detail::Product<T> q = p;
    q.a.data += from.a;
    q.b.data += from.b;
    q.c += from.c;
    return q;
  }

  template <class Gemm>
  void result(int64_t index, Gemm&& gemm) const {
    const auto first = batch.kept.at(index);
    const int64_t terms = batch.summed.count();
    if (terms == 0) {
      detail::Product<T> nothing = at(first);
      nothing.k = 0;
      gemm(nothing);
    }
    for (int64_t i = 0; i < terms; ++i) {
      detail::Product<T> q = at(first + batch.summed.at(i));
      q.add |= i > 0;
      gemm(q);
    }
  }

  void run() const {
    const int64_t results = batch.kept.count(), work = p.m * p.n * p.k;
    if (results == 1 || work >= kBigProduct) {
      for (int64_t i = 0; i < results; ++i) result(i, detail::gemm<T>);
      return;
    }
    const int64_t each = std::max<int64_t>(1, work * batch.summed.count());
    parallel_for(results, std::max<int64_t>(1, kGrain / each), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) result(i, detail::gemm_serial<T>);
    });
  }
};

void multiply(const Out& c, const Tensor& a, const Tensor& b) {
  const detail::ProductBatch batch(c.t, a, b);
  dispatch_real("matmul", c.t.dtype(), [&](auto t) { BatchedProduct<decltype(t)>(batch, c, a, b).run(); });
}

void matmul_forward_cpu(Tensor& y, const Tensor& a, const Tensor& b) { multiply({y, 0}, a, b); }
void matmul_backward_a_cpu(Out ga, const Tensor& gy, const Tensor& b) { multiply(ga, gy, detail::transposed(b)); }
void matmul_backward_b_cpu(Out gb, const Tensor& gy, const Tensor& a) { multiply(gb, detail::transposed(a), gy); }

TANDEM_CPU_KERNEL(matmul_forward, matmul_forward_cpu);
TANDEM_CPU_KERNEL(matmul_backward_a, matmul_backward_a_cpu);
TANDEM_CPU_KERNEL(matmul_backward_b, matmul_backward_b_cpu);

}  // namespace
}  // namespace tandem
