#include <tandem/parallel/reduce_slices.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

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

template <class T>
void reduce(ReduceOp op, std::span<const Source> sources, T* out, size_t elements) {
  std::array<Accumulator<T>, kBlock> acc;
  for (size_t at = 0; at < elements; at += kBlock) {
    const size_t n = std::min(kBlock, elements - at);
    bool begun = false;
    for (const Source& s : sources) {
      if (s.skip) continue;
      const T* x = reinterpret_cast<const T*>(s.values) + at;
      if (begun)
        combine(op, acc.data(), x, n, s);
      else
        load(acc.data(), x, n, s);
      begun = true;
    }
    if (begun)
      store(out + at, acc.data(), n);
    else
      std::fill_n(out + at, n, T());
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
