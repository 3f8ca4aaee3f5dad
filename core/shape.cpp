#include <tandem/core/shape.h>

namespace tandem {

std::string to_string(const Dims& d) {
  std::string s = "[";
  for (int i = 0; i < d.size(); ++i) {
    if (i) s += ',';
    s += std::to_string(d[i]);
  }
  return s += ']';
}

std::string to_string(Layout l) { return l == Layout::row_major ? "row_major" : "channels_last"; }

namespace {
// Of a tensor with a size of 0 the other sizes may have any product: it wraps around, since no element is addressed by
// it. Every other shape's product was checked when its memory was made.
void multiply(int64_t& k, int64_t size) { k = int64_t(uint64_t(k) * uint64_t(size)); }
}  // namespace

Dims dense_strides(const Dims& shape, Layout l) {
  Dims r = shape;
  int64_t k = 1;
  if (l == Layout::channels_last && shape.size() == 4) {
    for (int i : {1, 3, 2, 0}) {
      r[i] = k;
      multiply(k, shape[i]);
    }
  } else {
    for (int i = shape.size(); i--;) {
      r[i] = k;
      multiply(k, shape[i]);
    }
  }
  return r;
}

bool is_dense(const Dims& shape, const Dims& strides, Layout l) {
  if (l == Layout::channels_last && shape.size() != 4) return false;
  int64_t k = 1;
  bool ok = true;
  auto fits = [&](int i) {
    if (shape[i] != 1 && strides[i] != k) ok = false;
    multiply(k, shape[i]);
  };
  if (l == Layout::channels_last)
    for (int i : {1, 3, 2, 0}) fits(i);
  else
    for (int i = shape.size(); i--;) fits(i);
  return ok || k == 0;
}

int wrap_dim(const char* op, int64_t dim, int n_dims) {
  int n = n_dims ? n_dims : 1;  // a scalar counts as one dimension, as in PyTorch
  check<ShapeError>(dim >= -n && dim < n, "[", op, "] dimension ", dim, " of a tensor of ", n_dims, " dimensions");
  return int(dim < 0 ? dim + n : dim);
}

Dims broadcast_shapes(const char* op, const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims r = longer;
  int skip = longer.size() - shorter.size();
  for (int i = skip; i < r.size(); ++i) {
    int64_t x = longer[i], y = shorter[i - skip];
    check<ShapeError>(x == y || x == 1 || y == 1, "[", op, "] ", a, " and ", b, " do not broadcast: ", x, " against ",
                      y, " at dimension ", i - r.size());
    r[i] = x == 1 ? y : x;
  }
  return r;
}

}  // namespace tandem
