// A move knows only the elements' size, and takes several for one where they run on in both operands. A dimension that
// is dense in x but not in y is exchanged with y's own by tiles in shared memory, so that both sides are read and
// written by whole lines; all else is written in y's order.
#include <tandem/cuda/launch.h>
#include <tandem/cuda/nest.h>
#include <tandem/cuda/runtime.h>
#include <tandem/cuda/strided_copy.h>

namespace tandem::cuda_impl {
namespace {

constexpr int kY = 0, kX = 1;  // the operands' numbers in a nest

struct alignas(16) Wide {
  uint64_t v[2];
};

template <class T>
__global__ void move_kernel(Nest<2> nest, int64_t n, T* y, const T* x) {
#pragma unroll 1
  for (int64_t i = first_index(); i < n; i += index_step()) {
    int64_t at[2];
    nest.locate(i, at);
    y[at[kY]] = x[at[kX]];
  }
}

constexpr int kTile = 32;
constexpr int kTileRows = 8;       // that a block's threads take at once
constexpr int64_t kShortest = 16;  // dimensions worth a tile

// For each element of `outer`: y[c * y_stride + r] = x[r * x_stride + c].
struct Transposition {
  Nest<2> outer;
  int64_t outer_size, rows, columns, y_stride, x_stride;
  __host__ __device__ int64_t tiles_down() const { return (rows + kTile - 1) / kTile; }
  __host__ __device__ int64_t tiles_across() const { return (columns + kTile - 1) / kTile; }
  __host__ __device__ int64_t tiles() const { return outer_size * tiles_down() * tiles_across(); }
};

template <class T>
__global__ void transpose_kernel(Transposition t, T* y, const T* x) {
  __shared__ T tile[kTile][kTile + 1];  // a column's elements lie in different banks
  const int lane = int(threadIdx.x);
  for (int64_t k = blockIdx.x; k < t.tiles(); k += gridDim.x) {
    const int64_t row = k % t.tiles_down() * kTile, rest = k / t.tiles_down();
    const int64_t column = rest % t.tiles_across() * kTile;
    int64_t at[2];
    t.outer.locate(rest / t.tiles_across(), at);
    for (int i = int(threadIdx.y); i < kTile; i += kTileRows)
      if (row + i < t.rows && column + lane < t.columns)
        tile[i][lane] = x[at[kX] + (row + i) * t.x_stride + column + lane];
    __syncthreads();
    for (int i = int(threadIdx.y); i < kTile; i += kTileRows)
      if (column + i < t.columns && row + lane < t.rows)
        y[at[kY] + (column + i) * t.y_stride + row + lane] = tile[lane][i];
    __syncthreads();
  }
}

// The dimension along which x is dense, where it is worth to be exchanged with the inner one; else -1.
int exchanged_dimension(const Nest<2>& nest) {
  if (nest.inner_stride(kY) != 1 || nest.inner_stride(kX) == 1 || nest.inner_size() < kShortest) return -1;
  for (int d = 0; d + 1 < nest.dims; ++d)
    if (nest.stride[kX][d] == 1 && nest.size[d] >= kShortest) return d;
  return -1;
}

Transposition transposition(const Nest<2>& nest, int d) {
  Dims size, y, x;
  for (int i = 0; i + 1 < nest.dims; ++i)
    if (i != d) {
      size.push_back(nest.size[i]);
      y.push_back(nest.stride[kY][i]);
      x.push_back(nest.stride[kX][i]);
    }
  return {Nest<2>(size, y, {&y, &x}), size.numel(),         nest.inner_size(), nest.size[d],
          nest.stride[kY][d],         nest.inner_stride(kX)};
}

// How many elements of `size` bytes, up to 16 bytes, may be moved as one.
int64_t run_length(const Nest<2>& nest, size_t size, const void* y, const void* x) {
  if (nest.inner_stride(kY) != 1 || nest.inner_stride(kX) != 1) return 1;
  auto fits = [&](int64_t n) {
    const auto bytes = size_t(n) * size;
    if (nest.inner_size() % n || reinterpret_cast<uintptr_t>(y) % bytes || reinterpret_cast<uintptr_t>(x) % bytes)
      return false;
    for (int d = 0; d + 1 < nest.dims; ++d)
      if (nest.stride[kY][d] % n || nest.stride[kX][d] % n) return false;
    return true;
  };
  int64_t n = int64_t(16 / size);
  while (!fits(n)) n /= 2;
  return n;
}

// Calls f(T{}) with a type of that many bytes.
template <class F>
void dispatch_size(size_t bytes, F&& f) {
  switch (bytes) {
    case 16: return f(Wide{});
    case 8: return f(uint64_t{});
    case 4: return f(uint32_t{});
    case 2: return f(uint16_t{});
    default: return f(uint8_t{});
  }
}

}  // namespace

void strided_copy(const Tensor& y, const Tensor& x) {
  On on(y);
  Nest<2> nest(x.shape(), y.strides(), {&y.strides(), &x.strides()});
  const size_t size = size_of(x.dtype());
  void* to = y.raw();
  const void* from = x.raw();
  if (nest.dims == 1 && nest.inner_stride(kY) == 1 && nest.inner_stride(kX) == 1)
    return copy_bytes(to, y.device(), from, x.device(), size_t(x.numel()) * size);

  if (const int d = exchanged_dimension(nest); d >= 0) {
    const Transposition t = transposition(nest, d);
    const dim3 blocks(unsigned(std::min<int64_t>(t.tiles(), 1 << 16)));
    return dispatch_size(size, [&](auto v) {
      using T = decltype(v);
      launch(on, {blocks, dim3(kTile, kTileRows)}, transpose_kernel<T>, t, static_cast<T*>(to),
             static_cast<const T*>(from));
    });
  }

  const int64_t run = run_length(nest, size, to, from), n = x.numel() / run;
  nest.take_together(run);
  dispatch_size(size * size_t(run), [&](auto v) {
    using T = decltype(v);
    launch(on, grid_for(n), move_kernel<T>, nest, n, static_cast<T*>(to), static_cast<const T*>(from));
  });
}

}  // namespace tandem::cuda_impl
