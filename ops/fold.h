/// Not installed: reductions whose order is a function of the count alone, so that neither threads nor layout change a
/// bit of the result.
///
/// *Fold order*: n elements are cut into parts (see Parts). Inside a part, element i belongs to lane i % kLanes; each
/// lane is taken in order, then lanes are folded in halves, then parts in order. fold_run takes the elements of one
/// result (vectors across lanes), fold_columns those of several results side by side (vectors across results); both
/// keep this order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

namespace tandem::detail {

inline constexpr int kLanes = 16;
inline constexpr int kColumns = 64;   // results that fold_columns takes at once
inline constexpr int kMaxParts = 64;  // so that a caller may keep one number per part on the stack

/// [0, n) in equal parts of at least `least`, however many threads there are.
struct Parts {
  int64_t n, step, count;
  Parts(int64_t n_, int64_t least) : n(n_), step(std::max(least, (n_ + kMaxParts - 1) / kMaxParts)) {
    count = std::max<int64_t>(1, (n + step - 1) / step);
  }
  int64_t begin(int64_t k) const { return std::min(n, k * step); }
  int64_t end(int64_t k) const { return std::min(n, (k + 1) * step); }
  int64_t size(int64_t k) const { return end(k) - begin(k); }
};

template <class T>
struct Sum {
  using Acc = T;
  static constexpr T identity() { return T(0); }
  static constexpr T combine(T a, T b) { return a + b; }
};
/// NaN wins. (One choice on both comparisons together: with || loops do not become vectors.)
template <class T>
struct Max {
  using Acc = T;
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  static constexpr T combine(T a, T b) { return (b > a) | (b != b) ? b : a; }
};
template <class T>
struct Min {
  using Acc = T;
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static constexpr T combine(T a, T b) { return (b < a) | (b != b) ? b : a; }
};

/// Op over f(0) ... f(n-1).
template <class Op, class F>
typename Op::Acc fold_run(int64_t n, F f) {
  typename Op::Acc lane[kLanes];
  for (int k = 0; k < kLanes; ++k) lane[k] = Op::identity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int k = 0; k < kLanes; ++k) lane[k] = Op::combine(lane[k], f(i + k));
  }
  for (int k = 0; i < n; ++i, ++k) lane[k] = Op::combine(lane[k], f(i));
  for (int half = kLanes / 2; half; half /= 2)
    for (int k = 0; k < half; ++k) lane[k] = Op::combine(lane[k], lane[k + half]);
  return lane[0];
}

/// out[c] = Op over f(0, c) ... f(n-1, c), for c below columns <= kColumns. Lanes without elements are left out: they
/// would hold the identity, which changes nothing.
template <class Op, class F>
void fold_columns(int64_t n, int columns, F f, typename Op::Acc* out) {
  typename Op::Acc lane[kLanes][kColumns];
  const int used = int(std::min<int64_t>(std::max<int64_t>(n, 1), kLanes));
  for (int k = 0; k < used; ++k)
    for (int c = 0; c < columns; ++c) lane[k][c] = Op::identity();
  for (int64_t i = 0; i < n; ++i) {
    auto* l = lane[i % kLanes];
#pragma omp simd
    for (int c = 0; c < columns; ++c) l[c] = Op::combine(l[c], f(i, c));
  }
  for (int half = kLanes / 2; half; half /= 2)
    for (int k = 0; k < half && k + half < used; ++k)
      for (int c = 0; c < columns; ++c) lane[k][c] = Op::combine(lane[k][c], lane[k + half][c]);
  std::copy_n(lane[0], columns, out);
}

/// Elements (o, i, c) at (o * n + i) * inner + c: reductions along i, of `columns` neighbouring c at a time.
struct Blocks {
  int64_t outer, n, inner;

  /// How many groups of columns an outer index has.
  int64_t groups() const { return inner == 1 ? 1 : (inner + kColumns - 1) / kColumns; }
  int columns(int64_t group) const { return int(std::min<int64_t>(kColumns, inner - group * kColumns)); }
};

/// out[c] = Op over f(e, c), for `count` elements e of each of the columns; e is counted from the first one's offset.
template <class Op, class F>
void fold_block(const Blocks& b, int64_t count, int columns, F f, typename Op::Acc* out) {
  if (b.inner == 1)
    *out = fold_run<Op>(count, [&](int64_t i) { return f(i, 0); });
  else
    fold_columns<Op>(
        count, columns, [&, inner = b.inner](int64_t i, int c) { return f(i * inner + c, c); }, out);
}

}  // namespace tandem::detail
