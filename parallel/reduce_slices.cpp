#include <tandem/parallel/reduce_slices.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

namespace tandem {
namespace {

constexpr size_t kBlock = 2048;  // elements: the sums of a block stay in the first cache

// What values of type T are put together in.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, f16> || std::is_same_v<T, bf16>, float, T>;

template <class T>
void load(Accumulator<T>* acc, const T* x, size_t n, const Source& s) {
  using A = Accumulator<T>;
  if constexpr (std::is_floating_point_v<A>) {
    if (s.weighted) {
      const A w = A(s.weight);
      for (size_t i = 0; i < n; ++i) acc[i] = A(x[i]) * w;
      return;
    }
  }
  for (size_t i = 0; i < n; ++i) acc[i] = A(x[i]);
}

template <class T>
void add(Accumulator<T>* acc, const T* x, size_t n, const Source& s) {
  using A = Accumulator<T>;
  if constexpr (std::is_floating_point_v<A>) {
    if (s.weighted) {
      const A w = A(s.weight);
      for (size_t i = 0; i < n; ++i) acc[i] += A(x[i]) * w;
      return;
    }
    for (size_t i = 0; i < n; ++i) acc[i] += A(x[i]);
  } else if constexpr (std::is_same_v<T, bool>) {
    for (size_t i = 0; i < n; ++i) acc[i] = acc[i] || x[i];
  } else {  // wraps around, as PyTorch's
    using U = std::make_unsigned_t<T>;
    for (size_t i = 0; i < n; ++i) acc[i] = T(U(acc[i]) + U(x[i]));
  }
}

// NaN wins over every number.
template <bool kMin, class T>
void bound(Accumulator<T>* acc, const T* x, size_t n) {
  using A = Accumulator<T>;
  for (size_t i = 0; i < n; ++i) {
    const A a = acc[i], b = A(x[i]);
    const bool take = kMin ? b < a : a < b;
    if constexpr (std::is_floating_point_v<A>)
      acc[i] = take || b != b ? b : a;
    else
      acc[i] = take ? b : a;
  }
}

template <class T>
void store(T* out, const Accumulator<T>* acc, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = T(acc[i]);
}

template <class T>
void combine(ReduceOp op, Accumulator<T>* acc, const T* x, size_t n, const Source& s) {
  switch (op) {
    case ReduceOp::min: bound<true>(acc, x, n); break;
    case ReduceOp::max: bound<false>(acc, x, n); break;
    default: add(acc, x, n, s);
  }
}

// The sum of two at once saves a pass. A factor of 1 changes no bit.
template <class T, class Out>
void add_pair(Out* out, const T* x, const Source& of_x, const T* y, const Source& of_y, size_t n) {
  using A = Accumulator<T>;
  const A u = of_x.weighted ? A(of_x.weight) : A(1), v = of_y.weighted ? A(of_y.weight) : A(1);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) out[i] = Out(A(x[i]) * u + A(y[i]) * v);
}

template <class T>
void reduce(ReduceOp op, std::span<const Source> sources, T* out, size_t elements) {
  using A = Accumulator<T>;
  const bool pairs = std::is_floating_point_v<A> && (op == ReduceOp::sum || op == ReduceOp::mean);
  std::vector<const Source*> read;
  for (const Source& s : sources)
    if (!s.skip) read.push_back(&s);
  if (read.empty()) {
    std::fill_n(out, elements, T());
    return;
  }
  std::array<A, kBlock> acc;
  for (size_t at = 0; at < elements; at += kBlock) {
    const size_t n = std::min(kBlock, elements - at);
    auto values = [&](size_t r) { return reinterpret_cast<const T*>(read[r]->values) + at; };
    size_t next = 1;
    if constexpr (std::is_floating_point_v<A>) {
      if (pairs && read.size() == 2) {
        add_pair(out + at, values(0), *read[0], values(1), *read[1], n);
        continue;
      }
      if (pairs && read.size() > 2) {
        add_pair(acc.data(), values(0), *read[0], values(1), *read[1], n);
        next = 2;
      }
    }
    if (next == 1) load(acc.data(), values(0), n, *read[0]);
    for (; next < read.size(); ++next) combine(op, acc.data(), values(next), n, *read[next]);
    store(out + at, acc.data(), n);
  }
}

}  // namespace

void reduce_slices(const Reduction& r, std::span<const Source> sources, std::byte* out, size_t elements) {
  dispatch_all(r.dtype, [&](auto zero) {
    using T = decltype(zero);
    reduce<T>(r.op, sources, reinterpret_cast<T*>(out), elements);
  });
}

}  // namespace tandem
