/// Not installed. One value made of all elements: finish(Op over f(x0[i], x1[i], ...)), the x being dense. The order is
/// a function of the count alone.
#pragma once
#include <tandem/cuda/pointwise.h>
#include <tandem/cuda/reduce.h>

namespace tandem::cuda_impl {

inline constexpr int kFoldBlock = 512;
inline constexpr int64_t kFoldPart = 16 * kFoldBlock;  // what a block takes at least
inline constexpr int64_t kFoldBlocks = 1024;           // blocks at most

template <class Op, class F, int N, class... X>
__device__ typename Op::Acc fold_pack(const F& f, typename Op::Acc acc, const Pack<X, N>&... x) {
  for (int k = 0; k < N; ++k) acc = Op::combine(acc, f(widen(x.v[k])...));
  return acc;
}

// Each thread folds packs in turn, then elements after the last pack; what a block gives is a part, or the result where
// there is one block.
template <class Op, class F, class Finish, class Y, class... X>
__global__ void fold_all_kernel(F f, Finish finish, int64_t packs, int64_t n, Y* y, typename Op::Acc* parts,
                                const X*... x) {
  constexpr int N = kPack<X...>;
  auto acc = Op::identity();
#pragma unroll 1
  for (int64_t i = first_index(); i < packs; i += index_step()) acc = fold_pack<Op>(f, acc, load_pack<N>(x + i * N)...);
#pragma unroll 1
  for (int64_t i = packs * N + first_index(); i < n; i += index_step()) acc = Op::combine(acc, f(widen(x[i])...));
  acc = block_reduce<Op>(acc);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    *y = narrow<Y>(finish(acc));
  else
    parts[blockIdx.x] = acc;
}

struct Itself {
  template <class T>
  __device__ T operator()(T v) const {
    return v;
  }
};

template <class Op, class F, class Finish, class Y, class... X>
void fold_all(Device d, F f, Finish finish, int64_t n, Y* y, const X*... x) {
  using Acc = typename Op::Acc;
  On on(d);
  constexpr int N = kPack<X...>;
  const int64_t packs = (fits_pack<N>(x) && ...) ? n / N : 0;
  const int64_t blocks = std::clamp<int64_t>((n + kFoldPart - 1) / kFoldPart, 1, kFoldBlocks);
  Tensor parts;
  Acc* p = nullptr;
  if (blocks > 1) {
    parts = empty({blocks * int64_t(sizeof(Acc))}, {.dtype = Dtype::u8, .device = d});
    p = static_cast<Acc*>(parts.raw());
  }
  launch(on, {dim3(unsigned(blocks)), dim3(kFoldBlock)}, fold_all_kernel<Op, F, Finish, Y, X...>, f, finish, packs, n,
         y, p, x...);
  if (blocks > 1)
    launch(on, {dim3(1), dim3(kFoldBlock)}, fold_all_kernel<Op, Itself, Finish, Y, Acc>, Itself{}, finish, int64_t(0),
           blocks, y, static_cast<Acc*>(nullptr), static_cast<const Acc*>(p));
}

}  // namespace tandem::cuda_impl
