#include <tandem/core/copy.h>
#include <tandem/core/enter.h>
#include <tandem/core/parallel_for.h>
#include <tandem/core/record.h>
#include <tandem/ops/gemm.h>
#include <tandem/ops/matmul.h>
#include <tandem/ops/widen.h>

#include <algorithm>

namespace tandem {

constexpr OpId kMatmul{"matmul"};

namespace {

struct Shape2 {
  int64_t rows, cols, row_stride, col_stride;
  explicit Shape2(const Tensor& t)
      : rows(t.shape()[t.dim() - 2]),
        cols(t.shape().back()),
        row_stride(t.strides()[t.dim() - 2]),
        col_stride(t.strides().back()) {}
  bool by_rows() const { return (col_stride == 1 || cols == 1) && (row_stride >= cols || rows == 1); }
  bool by_cols() const { return (row_stride == 1 || rows == 1) && (col_stride >= rows || cols == 1); }
};

// x where its matrices lie by rows or by columns, else a row-major copy.
Tensor as_matrices(const Tensor& x) {
  const Shape2 s(x);
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

template <class T>
detail::MatrixRef<T> matrix(const Tensor& t) {
  const Shape2 s(t);
  if (s.by_rows()) return {t.ptr<T>(), s.rows == 1 ? std::max<int64_t>(s.cols, 1) : s.row_stride};
  return {t.ptr<T>(), s.cols == 1 ? std::max<int64_t>(s.rows, 1) : s.col_stride, true};
}

// A set of batch dimensions: how many products they span and where each one's matrices start.
struct Batch {
  int n = 0;
  int64_t size[kMaxDims], a[kMaxDims], b[kMaxDims], c[kMaxDims];

  void add(int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
    size[n] = count;
    a[n] = a_step;
    b[n] = b_step;
    c[n] = c_step;
    ++n;
  }
  int64_t count() const {
    int64_t k = 1;
    for (int i = 0; i < n; ++i) k *= size[i];
    return k;
  }
  template <class T>
  detail::Product<T> at(int64_t index, detail::Product<T> p) const {
    for (int i = n; i--;) {
      const int64_t k = index % size[i];
      index /= size[i];
      p.a.data += k * a[i];
      p.b.data += k * b[i];
      p.c += k * c[i];
    }
    return p;
  }
};

// Products of whole batches: those of `kept` dimensions are results, those of `summed` ones add up.
template <class T>
struct BatchedProduct {
  detail::Product<T> p;
  Batch kept, summed;

  BatchedProduct(const Out& c, const Tensor& a, const Tensor& b) {
    const Shape2 ms(c.t), as(a);
    p = {.m = ms.rows,
         .n = ms.cols,
         .k = as.cols,
         .a = matrix<T>(a),
         .b = matrix<T>(b),
         .c = c.t.ptr<T>(),
         .c_stride = std::max<int64_t>(ms.cols, 1),
         .add = c.beta != 0,
         .device = c.t.device()};
    for (int i = c.t.dim() - 2; i--;) {  // inner dimensions first: they fold into the matrices
      const int64_t an = a.shape()[i], bn = b.shape()[i], cn = c.t.shape()[i], size = an == 1 ? bn : an;
      const int64_t a_step = an == 1 ? 0 : a.strides()[i], b_step = bn == 1 ? 0 : b.strides()[i];
      const int64_t c_step = cn == 1 ? 0 : c.t.strides()[i];
      if (size == 1) continue;
      if (cn == size && !p.a.transposed && b_step == 0 && a_step == p.m * p.a.stride && c_step == p.m * p.c_stride)
        p.m *= size;  // the matrices of a are one tall matrix
      else if (cn == 1 && p.a.transposed && !p.b.transposed && a_step == p.k * p.a.stride && b_step == p.k * p.b.stride)
        p.k *= size;  // the sum runs on over the next matrices
      else
        (cn == 1 ? summed : kept).add(size, a_step, b_step, c_step);
    }
  }

  template <class Gemm>
  void sum_into(const detail::Product<T>& first, Gemm&& gemm) const {
    const int64_t terms = summed.count();
    if (terms == 0) {
      detail::Product<T> nothing = first;
      nothing.k = 0;
      gemm(nothing);
    }
    for (int64_t i = 0; i < terms; ++i) {
      detail::Product<T> q = summed.at(i, first);
      q.add |= i > 0;
      gemm(q);
    }
  }

  void run() const {
    const int64_t results = kept.count(), work = p.m * p.n * p.k;
    if (results == 1 || work >= kBigProduct) {
      for (int64_t i = 0; i < results; ++i) sum_into(kept.at(i, p), detail::gemm<T>);
      return;
    }
    const int64_t each = std::max<int64_t>(1, work * summed.count());
    parallel_for(results, std::max<int64_t>(1, kGrain / each), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum_into(kept.at(i, p), detail::gemm_serial<T>);
    });
  }
};

Tensor transposed(const Tensor& t) {
  Dims shape = t.shape(), strides = t.strides();
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return t.alias(shape, strides, t.impl()->offset);
}

void multiply(const Out& c, const Tensor& a, const Tensor& b) {
  dispatch_real("matmul", c.t.dtype(), [&](auto t) { BatchedProduct<decltype(t)>(c, a, b).run(); });
}

void matmul_forward_cpu(Tensor& y, const Tensor& a, const Tensor& b) { multiply({y, 0}, a, b); }
void matmul_backward_a_cpu(Out ga, const Tensor& gy, const Tensor& b) { multiply(ga, gy, transposed(b)); }
void matmul_backward_b_cpu(Out gb, const Tensor& gy, const Tensor& a) { multiply(gb, transposed(a), gy); }

TANDEM_CPU_KERNEL(matmul_forward, matmul_forward_cpu);
TANDEM_CPU_KERNEL(matmul_backward_a, matmul_backward_a_cpu);
TANDEM_CPU_KERNEL(matmul_backward_b, matmul_backward_b_cpu);

}  // namespace
}  // namespace tandem
