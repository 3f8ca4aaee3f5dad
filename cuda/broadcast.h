/// Not installed. Pointwise kernels (pointwise.h) whose operands were stretched to the result's shape: stride 0 along
/// some dimensions, else dense in the result's layout. Nothing is materialised.
#pragma once
#include <tandem/cuda/nest.h>
#include <tandem/cuda/pointwise.h>

namespace tandem::cuda_impl {

/// Operand K of a nest.
template <class T, int K>
struct Operand {
  using Element = T;
  static constexpr int kNumber = K;
  const T* data;
};

/// N elements that follow each other, or one for all of them.
template <int N, class T>
__device__ Pack<T, N> load_run(const T* p, int64_t stride) {
  if (stride) return load_pack<N>(p);
  Pack<T, N> v;
  for (T& e : v.v) e = *p;
  return v;
}

// Each thread takes packs in turn, none of which crosses a row of the nest, then elements after the last pack. No
// __restrict__: y may be one of the x.
template <class F, class Y, class... X>
__global__ void broadcast_kernel(F f, bool add, int64_t packs, int64_t n, Nest<int(sizeof...(X))> nest, Y* y, X... x) {
  constexpr int N = kPack<Y, typename X::Element...>;
  int64_t at[sizeof...(X)];
#pragma unroll 1
  for (int64_t i = first_index(); i < packs; i += index_step()) {
    Pack<Y, N> out{};
    if (add) out = load_pack<N>(y + i * N);
    nest.locate(i * N, at);
    apply(f, add, out, load_run<N>(x.data + at[X::kNumber], nest.inner_stride(X::kNumber))...);
    store_pack<N>(y + i * N, out);
  }
#pragma unroll 1
  for (int64_t i = packs * N + first_index(); i < n; i += index_step()) {
    Y was{};
    if (add) was = y[i];
    nest.locate(i, at);
    y[i] = element(f, add, was, x.data[at[X::kNumber]]...);
  }
}

/// Whether packs of N elements may be read from an operand.
template <int N, class Nest, class X>
bool fits_run(const Nest& nest, X x) {
  if (nest.inner_stride(X::kNumber) == 0) return true;
  for (int d = 0; d + 1 < nest.dims; ++d)
    if (nest.stride[X::kNumber][d] % N) return false;
  return fits_pack<N>(x.data);
}

template <class F, class Y, class... X>
void launch_broadcast(cudaStream_t stream, F f, bool add, int64_t n, const Nest<int(sizeof...(X))>& nest, Y* y,
                      X... x) {
  constexpr int N = kPack<Y, typename X::Element...>;
  const bool packed =
      (nest.dims == 1 || nest.inner_size() % N == 0) && fits_pack<N>(y) && (fits_run<N>(nest, x) && ...);
  const int64_t packs = packed ? n / N : 0;
  launch(stream, grid_for(packs ? packs : n), broadcast_kernel<F, Y, X...>, f, add, packs, n, nest, y, x...);
}

/// y = (y +) f(a, b), of elements of these types; y is dense, a and b are as above.
template <class Y, class A, class B, class F>
void broadcast(cudaStream_t stream, F f, bool add, const Tensor& y, const Tensor& a, const Tensor& b) {
  if (y.numel() == 0) return;
  const Nest<2> nest(y.shape(), y.strides(), {&a.strides(), &b.strides()});
  launch_broadcast(stream, f, add, y.numel(), nest, y.ptr<Y>(), Operand<A, 0>{a.ptr<A>()}, Operand<B, 1>{b.ptr<B>()});
}

/// y = (y +) f(a, b, c).
template <class Y, class A, class B, class C, class F>
void broadcast(cudaStream_t stream, F f, bool add, const Tensor& y, const Tensor& a, const Tensor& b, const Tensor& c) {
  if (y.numel() == 0) return;
  const Nest<3> nest(y.shape(), y.strides(), {&a.strides(), &b.strides(), &c.strides()});
  launch_broadcast(stream, f, add, y.numel(), nest, y.ptr<Y>(), Operand<A, 0>{a.ptr<A>()}, Operand<B, 1>{b.ptr<B>()},
                   Operand<C, 2>{c.ptr<C>()});
}

}  // namespace tandem::cuda_impl
