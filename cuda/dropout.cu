// Draws are keyed as the CPU's (ops/dropout.cpp), so that masks are the same bits: four elements of a row share one.
#include <tandem/core/generator.h>
#include <tandem/core/step_graph.h>
#include <tandem/cuda/pointwise.h>
#include <tandem/ops/dropout.h>

namespace tandem::cuda_impl {
namespace {

// Rows of `channels` planes; of a row-major tensor a row is one plane. In memory a plane's elements are `channels`
// apart, those of different channels side by side.
struct Shape {
  int64_t rows, channels, plane;
  __host__ __device__ int64_t width() const { return channels * plane; }
};

// The key of this call's draws. A captured step finds its counters on the device: the step, and what calls are ahead of
// those at capture.
__device__ uint64_t draws_of(const DropoutKey& key, const int64_t* counters) {
  const uint64_t step = counters ? uint64_t(counters[0]) : key.step;
  const uint64_t call = key.call + (counters ? uint64_t(counters[1]) : 0);
  const auto u = philox(key.seed, {uint32_t(step), uint32_t(step >> 32), uint32_t(call), uint32_t(call >> 32)});
  return uint64_t(u[1]) << 32 | u[0];
}

struct Draw {
  uint8_t kept[4];
};
__device__ Draw draw(uint64_t draws, int64_t row, int64_t block, uint64_t dropped) {
  const auto u = philox(draws, {uint32_t(block), uint32_t(block >> 32), uint32_t(row), uint32_t(uint64_t(row) >> 32)});
  return {uint8_t(u[0] >= dropped), uint8_t(u[1] >= dropped), uint8_t(u[2] >= dropped), uint8_t(u[3] >= dropped)};
}

template <class C>
struct Keep {
  C scale;
  __device__ C operator()(C x, uint8_t kept) const { return x * (C(kept) * scale); }
};

// A thread takes the four elements of a draw. Where they lie in one plane, neighbours take the same elements of
// neighbouring channels, which lie side by side; `packed`: there is one channel, and four elements are a pack.
template <class T>
__global__ void dropout_kernel(DropoutKey key, const int64_t* counters, uint64_t dropped, Keep<Compute<T>> keep,
                               Shape shape, bool packed, T* y, uint8_t* mask, const T* x) {
  __shared__ uint64_t draws;
  if (threadIdx.x == 0) draws = draws_of(key, counters);
  __syncthreads();
  const bool whole = shape.plane % 4 == 0;
  const int64_t blocks = (shape.width() + 3) / 4;
#pragma unroll 1
  for (int64_t i = first_index(); i < shape.rows * blocks; i += index_step()) {
    const int64_t row = i / blocks, rest = i - row * blocks;
    const int64_t channel = whole ? rest % shape.channels : 0, quad = rest / shape.channels;
    const int64_t block = whole ? channel * (shape.plane / 4) + quad : rest;
    const Draw u = draw(draws, row + key.row_offset, block, dropped);
    if (packed) {
      const auto in = load_pack<4>(x + 4 * i);
      Pack<T, 4> out;
      Pack<uint8_t, 4> kept;
      for (int k = 0; k < 4; ++k) {
        kept.v[k] = u.kept[k];
        out.v[k] = narrow<T>(keep(widen(in.v[k]), u.kept[k]));
      }
      store_pack<4>(mask + 4 * i, kept);
      store_pack<4>(y + 4 * i, out);
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      const int64_t e = 4 * block + k;
      if (e >= shape.width()) break;
      const int64_t at = row * shape.width() + e % shape.plane * shape.channels + e / shape.plane;
      mask[at] = u.kept[k];
      y[at] = narrow<T>(keep(widen(x[at]), u.kept[k]));
    }
  }
}

template <class T>
Keep<Compute<T>> keep_of(double p) {
  return {Compute<T>(p < 1 ? 1 / (1 - p) : 0)};
}

void forward(Tensor& y, Tensor& mask, const Tensor& x, const DropoutKey& key, double p) {
  if (x.numel() == 0) return;
  On on(y);
  const int64_t rows = mask.dim() ? mask.size(0) : 1, width = mask.numel() / rows;
  const int64_t channels = mask.layout() == Layout::channels_last ? mask.size(1) : 1;
  const Shape shape{rows, channels, width / channels};
  StepCapture* capture = StepCapture::current();
  const int64_t* counters = capture ? capture->random_counters(y.device()).ptr<int64_t>() : nullptr;
  dispatch_float(x.dtype(), [&](auto t) {
    using T = decltype(t);
    T* to = y.ptr<T>();
    const T* from = x.ptr<T>();
    auto* bytes = mask.ptr<uint8_t>();
    const bool packed =
        channels == 1 && width % 4 == 0 && fits_pack<4>(to) && fits_pack<4>(from) && fits_pack<4>(bytes);
    launch(on, grid_for(rows * ((width + 3) / 4)), dropout_kernel<T>, key, counters, uint64_t(p * 0x1p32),
           keep_of<T>(p), shape, packed, to, bytes, from);
  });
}

void backward_data(Out gx, const Tensor& gy, const Tensor& mask, double p) {
  On on(gy);
  dispatch_float(gy.dtype(), [&](auto t) {
    using T = decltype(t);
    pointwise(on, keep_of<T>(p), gx.beta != 0, gy.numel(), gx.t.ptr<T>(), gy.ptr<T>(), mask.ptr<uint8_t>());
  });
}

TANDEM_KERNEL(dropout_forward, cuda, forward);
TANDEM_KERNEL(dropout_backward_data, cuda, backward_data);

}  // namespace
}  // namespace tandem::cuda_impl
