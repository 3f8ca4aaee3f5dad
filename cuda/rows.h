/// Not installed. Kernels that work on rows, a few threads to each: [outer, n, inner] along n, as softmax and the norms
/// see their operands. Rows that lie one after the other are read and written by 16 bytes where their memory allows it.
///
/// A team is the threads of one row: a warp, a block for long rows, or, where rows lie side by side, a column of
/// threads in a block whose neighbours have the neighbouring rows. A kernel runs
///
///     for_each_row<Team>(rows, [&](const Team& team) { ... });
///
/// and in it, with pointers to the row's first elements (x + team.first),
///
///     team.each(f, x...)          f(x[i]..., i) for the elements of this thread
///     team.template reduce<Op>(v)  Op over the team's values, for all of its threads
///     team.write(y, add, f, x...)  y[i] = (y[i] +) f(x[i]..., i), rounded once; y may be one of the x
///
/// Values arrive as they are computed with. All threads of a team take the same path through reduce.
#pragma once
#include <tandem/cuda/pointwise.h>
#include <tandem/cuda/reduce.h>

namespace tandem::cuda_impl {

/// Whether all of these, which may be null, lie at multiples of 16 bytes.
template <class... X>
bool are_packed(const X*... x) {
  return ((reinterpret_cast<uintptr_t>(x) % 16 == 0) && ...);
}
/// Whether all rows of n elements that lie one after the other from x on do.
template <class... X>
bool rows_are_packed(int64_t n, const X*... x) {
  return are_packed(x...) && ((n * int64_t(sizeof(X)) % 16 == 0) && ...);
}

/// Calls f(x[i]..., i) for the elements [begin, end) that are the `lane`-th's of `lanes` threads. `packed`: all x and
/// begin are at multiples of 16 bytes.
template <class F, class... X>
__device__ void each_of_lane(int64_t begin, int64_t end, int lane, int lanes, bool packed, F f, const X*... x) {
  if constexpr ((std::is_arithmetic_v<Compute<X>> && ...)) {
    constexpr int N = kPack<X...>;
    if (packed) {
#pragma unroll 4
      for (int64_t i = begin + lane * N; i + N <= end; i += lanes * N)
        [&](const Pack<X, N>... in) {
          for (int k = 0; k < N; ++k) f(Compute<X>(in.v[k])..., i + k);
        }(*reinterpret_cast<const Pack<X, N>*>(x + i)...);
      begin += (end - begin) / N * N;
    }
  }
#pragma unroll 4
  for (int64_t i = begin + lane; i < end; i += lanes) f(Compute<X>(x[i])..., i);
}

template <class Y, class R>
__device__ void store(Y& y, bool add, R r) {
  y = Y(add ? Compute<Y>(y) + Compute<Y>(r) : Compute<Y>(r));
}

/// y[i] = (y[i] +) f(x[i]..., i) for the elements [0, n) of a thread, as each_of_lane.
template <class Y, class F, class... X>
__device__ void write_of_lane(int64_t n, int lane, int lanes, bool packed, Y* y, bool add, F f, const X*... x) {
  constexpr int N = kPack<Y, X...>;
  int64_t begin = 0;
  if (packed) {
    begin = n / N * N;
    for (int64_t i = lane * N; i < begin; i += lanes * N)
      [&](const Pack<X, N>... in) {
        Pack<Y, N> out;
        if (add) out = *reinterpret_cast<const Pack<Y, N>*>(y + i);
        for (int k = 0; k < N; ++k) store(out.v[k], add, f(Compute<X>(in.v[k])..., i + k));
        *reinterpret_cast<Pack<Y, N>*>(y + i) = out;
      }(*reinterpret_cast<const Pack<X, N>*>(x + i)...);
  }
  for (int64_t i = begin + lane; i < n; i += lanes) store(y[i], add, f(Compute<X>(x[i])..., i));
}

struct Rows {
  int64_t outer, n, inner = 1;
  bool packed = false;  // inner is 1, and all operands of each row begin at multiples of 16 bytes
  __device__ int64_t count() const { return outer * inner; }
};

/// A warp, or a block of one dimension, to a row; inner is 1.
template <bool kBlockwide>
struct RowTeam {
  int64_t row, first;
  int lane, lanes;
  int64_t n;
  bool packed;

  __device__ RowTeam(const Rows& r, int64_t k)
      : row(k),
        first(k * r.n),
        lane(int(threadIdx.x) % (kBlockwide ? int(blockDim.x) : kWarp)),
        lanes(kBlockwide ? int(blockDim.x) : kWarp),
        n(r.n),
        packed(r.packed) {}
  __device__ static int64_t turns(const Rows& r) { return r.outer; }
  __device__ static int64_t turn() { return kBlockwide ? blockIdx.x : first_index() / kWarp; }
  __device__ static int64_t step() { return kBlockwide ? gridDim.x : index_step() / kWarp; }

  template <class F, class... X>
  __device__ void each(F f, const X*... x) const {
    each_of_lane(0, n, lane, lanes, packed, f, x...);
  }
  template <class Op>
  __device__ typename Op::Acc reduce(typename Op::Acc v) const {
    if constexpr (kBlockwide)
      return block_reduce<Op>(v);
    else
      return warp_reduce<Op>(v);
  }
  template <class Y, class F, class... X>
  __device__ void write(Y* y, bool add, F f, const X*... x) const {
    write_of_lane(n, lane, lanes, packed, y, add, f, x...);
  }
};

/// kDown threads to a row, in a block of kWarp rows that lie side by side.
struct ColumnTeam {
  static constexpr int kDown = 8;
  int64_t row, first, n, step_;

  __device__ ColumnTeam(const Rows& r, int64_t k) : n(r.n), step_(r.inner) {
    const int64_t groups = (r.inner + kWarp - 1) / kWarp, o = k / groups, c = k % groups * kWarp + threadIdx.x;
    row = o * r.inner + c;
    first = o * r.n * r.inner + c;
    if (c >= r.inner) n = 0;  // takes part in barriers alone
  }
  __device__ static int64_t turns(const Rows& r) { return r.outer * ((r.inner + kWarp - 1) / kWarp); }
  __device__ static int64_t turn() { return blockIdx.x; }
  __device__ static int64_t step() { return gridDim.x; }

  template <class F, class... X>
  __device__ void each(F f, const X*... x) const {
    for (int64_t i = threadIdx.y; i < n; i += kDown) f(Compute<X>(x[i * step_])..., i);
  }
  template <class Op>
  __device__ typename Op::Acc reduce(typename Op::Acc v) const {
    __shared__ typename Op::Acc share[kDown][kWarp];
    __syncthreads();  // the last reduction's shares have been read
    share[threadIdx.y][threadIdx.x] = v;
    __syncthreads();
    v = share[0][threadIdx.x];
    for (int d = 1; d < kDown; ++d) v = Op::combine(v, share[d][threadIdx.x]);
    return v;
  }
  template <class Y, class F, class... X>
  __device__ void write(Y* y, bool add, F f, const X*... x) const {
    for (int64_t i = threadIdx.y; i < n; i += kDown) store(y[i * step_], add, f(Compute<X>(x[i * step_])..., i));
  }
};

template <class Team, class F>
__device__ void for_each_row(const Rows& r, F f) {
  for (int64_t k = Team::turn(); k < Team::turns(r); k += Team::step()) f(Team(r, k));
}

/// Calls f(std::type_identity<Team>, Grid) with the team and the grid for rows that lie one after the other.
template <class F>
void with_row_team(const Rows& r, F f) {
  if (r.n <= 2048) return f(std::type_identity<RowTeam<false>>{}, grid_for(r.outer * kWarp));
  const Grid blocks{dim3(unsigned(std::min<int64_t>(r.outer, 1 << 16))), dim3(r.n <= 8192 ? 256 : 1024)};
  f(std::type_identity<RowTeam<true>>{}, blocks);
}

/// The same for any rows.
template <class F>
void with_team(const Rows& r, F f) {
  if (r.inner == 1) return with_row_team(r, f);
  const int64_t groups = r.outer * ((r.inner + kWarp - 1) / kWarp);
  f(std::type_identity<ColumnTeam>{},
    Grid{dim3(unsigned(std::min<int64_t>(groups, 1 << 16))), dim3(kWarp, ColumnTeam::kDown)});
}

}  // namespace tandem::cuda_impl
