/// Not installed. Reductions of [outer, n, inner] along n, the shapes that ops/reduce_blocks.h makes of any set of
/// dimensions. Long ones are cut into parts, whose results a second launch brings together. Parts, threads and order
/// follow from the three sizes (and, for rows, from whether these can be read by 16 bytes) alone.
#pragma once
#include <tandem/cuda/rows.h>
#include <tandem/ops/reduce_blocks.h>

#include <algorithm>

namespace tandem::cuda_impl {

using detail::Blocks;

/// Sums are in f64 for f64, in i64 for whole numbers, else in f32.
template <class T>
using SumOf = std::conditional_t<std::is_integral_v<T>, int64_t, Compute<T>>;

struct ReducePlan {
  int64_t outer, n, inner;
  int64_t parts, step;  // of n
  bool packed;          // rows alone

  __device__ int64_t end(int64_t part) const { return min(n, (part + 1) * step); }
};

// One thread for each part of each result.
template <class Op, class X, class Map, class Store>
__global__ void reduce_each(const X* x, ReducePlan p, Map map, Store store) {
  for (int64_t k = first_index(); k < p.outer * p.inner; k += index_step()) {
    const X* first = x + k / p.inner * p.n * p.inner + k % p.inner;
    auto acc = Op::identity();
    for (int64_t i = 0; i < p.n; ++i) acc = Op::combine(acc, map(Compute<X>(first[i * p.inner]), i, k));
    store(k, acc);
  }
}

// One warp for each part of each row; inner is 1.
template <class Op, class X, class Map, class Store>
__global__ void reduce_rows(const X* x, ReducePlan p, Map map, Store store) {
  const int lane = int(threadIdx.x) % kWarp;
  for (int64_t k = first_index() / kWarp; k < p.outer * p.parts; k += index_step() / kWarp) {
    const int64_t row = k / p.parts, part = k % p.parts;
    auto acc = Op::identity();
    each_of_lane(
        part * p.step, p.end(part), lane, kWarp, p.packed,
        [&](Compute<X> v, int64_t i) { acc = Op::combine(acc, map(v, i, row)); }, x + row * p.n);
    acc = warp_reduce<Op>(acc);
    if (lane == 0) store(k, acc);
  }
}

inline constexpr int kDown = 8;  // threads that share a column

// A block of kWarp columns, kDown threads to each, for each part.
template <class Op, class X, class Map, class Store>
__global__ void reduce_columns(const X* x, ReducePlan p, Map map, Store store) {
  using Acc = typename Op::Acc;
  __shared__ Acc share[kDown][kWarp];
  const int across = int(threadIdx.x), down = int(threadIdx.y);
  const int64_t groups = (p.inner + kWarp - 1) / kWarp;
  for (int64_t k = blockIdx.x; k < p.outer * groups * p.parts; k += gridDim.x) {
    const int64_t part = k % p.parts, o = k / p.parts / groups, c = k / p.parts % groups * kWarp + across;
    const int64_t result = o * p.inner + c;
    Acc acc = Op::identity();
    if (c < p.inner) {
      const X* column = x + o * p.n * p.inner + c;
      const int64_t end = p.end(part);
#pragma unroll 4
      for (int64_t i = part * p.step + down; i < end; i += kDown)
        acc = Op::combine(acc, map(Compute<X>(column[i * p.inner]), i, result));
    }
    __syncthreads();  // the last turn's shares have been read
    share[down][across] = acc;
    __syncthreads();
    if (down == 0 && c < p.inner) {
      for (int d = 1; d < kDown; ++d) acc = Op::combine(acc, share[d][across]);
      store(result * p.parts + part, acc);
    }
  }
}

template <class Acc>
struct StorePart {
  Acc* to;
  __device__ void operator()(int64_t k, Acc v) const { to[k] = v; }
};
template <class Acc>
struct TakePart {
  __device__ Acc operator()(Acc v, int64_t, int64_t) const { return v; }
};

inline ReducePlan cut(ReducePlan p, int64_t most_parts, int64_t least_step) {
  p.parts = std::max<int64_t>(1, std::min(most_parts, (p.n + least_step - 1) / least_step));
  p.step = (p.n + p.parts * least_step - 1) / (p.parts * least_step) * least_step;
  p.parts = (p.n + p.step - 1) / p.step;
  return p;
}

/// store(j, Op over map(x[element i of result j], i, j)) for each result j of blocks. Functors, for the device.
template <class Op, class X, class Map, class Store>
void reduce_blocks(const Tensor& blocks, Map map, Store store) {
  using Acc = typename Op::Acc;
  const Blocks b = detail::block_sizes(blocks);
  const int64_t results = b.outer * b.inner;
  if (results == 0) return;
  On on(blocks);
  const X* x = b.n ? blocks.ptr<X>() : nullptr;  // of an empty view it may point anywhere
  ReducePlan p{b.outer, b.n, b.inner, 1, b.n, false};
  if (b.n <= (b.inner == 1 ? 8 : 32))
    return launch(on, grid_for(results), reduce_each<Op, X, Map, Store>, x, p, map, store);

  // Enough parts to fill a large GPU, of at least a few hundred elements.
  const int64_t groups = b.inner == 1 ? b.outer : b.outer * ((b.inner + kWarp - 1) / kWarp);
  p = b.inner == 1 ? cut(p, 4096 / groups, 1024) : cut(p, 1024 / groups, 128);
  p.packed = b.inner == 1 && rows_are_packed(b.n, x);
  auto run = [&](auto to) {
    using To = decltype(to);
    if (b.inner == 1)
      launch(on, grid_for(groups * p.parts * kWarp), reduce_rows<Op, X, Map, To>, x, p, map, to);
    else
      launch(on, {dim3(unsigned(std::min<int64_t>(groups * p.parts, 1 << 16))), dim3(kWarp, kDown)},
             reduce_columns<Op, X, Map, To>, x, p, map, to);
  };
  if (p.parts == 1) return run(store);

  const Tensor scratch =
      empty({results * p.parts * int64_t(sizeof(Acc))}, {.dtype = Dtype::u8, .device = blocks.device()});
  auto* partial = static_cast<Acc*>(scratch.raw());
  run(StorePart<Acc>{partial});
  const ReducePlan rest{results, p.parts, 1, 1, p.parts, rows_are_packed(p.parts, partial)};
  launch(on, grid_for(results * kWarp), reduce_rows<Op, Acc, TakePart<Acc>, Store>, partial, rest, TakePart<Acc>{},
         store);
}

/// y[j] = (y[j] +) v, rounded once.
template <class T>
struct StoreSum {
  T* y;
  bool add;
  __device__ void operator()(int64_t j, Compute<T> v) const { y[j] = T(add ? Compute<T>(y[j]) + v : v); }
};
/// Calls f(G{}) with the type of the sums of T that a parameter's gradient holds: T, or f32 for f16 and bf16.
template <class T, class F>
void dispatch_sum(Dtype sum, F f) {
  if (sum == dtype_of<T>) return f(T{});
  f(Compute<T>{});
}

template <class T>
struct Value {
  template <class V>
  __device__ T operator()(V v, int64_t, int64_t) const {
    return T(v);
  }
};

}  // namespace tandem::cuda_impl
