// One kernel from stored images to a batch: an image's blocks draw its placement, then each thread writes the channels
// of an output pixel, which lie side by side. The same bits as the CPU's: both subtract, then divide, in one type.
#include <tandem/cuda/pointwise.h>
#include <tandem/cuda/range_check.h>
#include <tandem/ops/augment_placement.h>
#include <tandem/ops/next_rows.h>

namespace tandem::cuda_impl {
namespace {

using detail::Placement, detail::Placer, detail::unpad;

struct Images {
  int64_t c, h, w, out_h, out_w;
  int64_t image, plane, stride_y, stride_x;  // of what is stored
};

// An AugmentKey for kernels.
struct Key {
  uint64_t seed;
  int64_t epoch;
  const int64_t *samples, *cursor;  // each may be null
  explicit Key(const AugmentKey& k)
      : seed(k.seed),
        epoch(k.epoch),
        samples(k.samples ? k.samples.ptr<int64_t>() : nullptr),
        cursor(k.cursor ? k.cursor.ptr<int64_t>() : nullptr) {}
  __device__ Placement place(const Placer& p, int64_t i) const {
    return p(cursor ? uint64_t(cursor[kCursorSeed]) : seed, cursor ? cursor[kCursorEpoch] : epoch,
             samples ? samples[i] : i);
  }
};

constexpr int kChannels = 64;  // for which a kernel takes means and deviations

// Channel k of the input as it goes into the output: bytes are scaled to [0, 1], then all is normalised where that is
// asked for.
template <class To>
struct Normalize {
  bool scaled, on;
  Compute<To> mean[kChannels], std[kChannels];

  template <class In>
  __device__ To operator()(int k, In v) const {
    if constexpr (std::is_same_v<To, uint8_t>) {
      return v;
    } else {
      auto x = Compute<To>(v);
      if (scaled) x /= 255.f;
      return To(on ? (x - mean[k]) / std[k] : x);
    }
  }
};

constexpr int kPixels = 1024;  // of a block

// Channels [first, first + channels).
template <class In, class To>
__global__ void augment_kernel(To* y, const In* x, Images im, Placer place, Key key, const int64_t* rows,
                               RangeCheck in_range, PaddingMode mode, Compute<In> fill, Normalize<To> value,
                               int64_t first, int channels) {
  __shared__ Placement drawn;
  const int64_t i = blockIdx.x, row = rows ? rows[i] : i;
  if (threadIdx.x == 0) {
    const Placement mine = key.place(place, i);
    drawn = mine;
  }
  __syncthreads();
  const Placement& p = drawn;
  const bool there = in_range(row, i);
  const int64_t end = min((int64_t(blockIdx.y) + 1) * kPixels, im.out_h * im.out_w);
  for (int64_t pixel = int64_t(blockIdx.y) * kPixels + threadIdx.x; pixel < end; pixel += blockDim.x) {
    const int64_t py = pixel / im.out_w, px = pixel % im.out_w;
    To* to = y + (i * im.out_h * im.out_w + pixel) * im.c + first;
    const bool in_hole = p.hole && py >= p.hole_y && py < p.hole_y + p.hole && px >= p.hole_x && px < p.hole_x + p.hole;
    if (in_hole || !there) {
      for (int k = 0; k < channels; ++k) to[k] = To(0);
      continue;
    }
    const int64_t from_y = unpad(py + p.dy, im.h, mode);
    const int64_t from_x = unpad((p.flip ? im.out_w - 1 - px : px) + p.dx, im.w, mode);
    if (from_y < 0 || from_x < 0) {
      for (int k = 0; k < channels; ++k) to[k] = value(k, fill);
      continue;
    }
    const In* from = x + row * im.image + first * im.plane + from_y * im.stride_y + from_x * im.stride_x;
    for (int k = 0; k < channels; ++k) to[k] = value(k, Compute<In>(from[k * im.plane]));
  }
}

template <class In, class To>
void write_images(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o) {
  On on(y);
  const Images im{x.size(1),   x.size(2),   x.size(3),   y.size(2),  y.size(3),
                  x.stride(0), x.stride(1), x.stride(2), x.stride(3)};
  const Placer place(o, im.h, im.w, im.out_h, im.out_w);
  const Grid grid{dim3(unsigned(y.size(0)), unsigned((im.out_h * im.out_w + kPixels - 1) / kPixels)), dim3(kBlock)};
  auto per_channel = [](const std::vector<double>& v, int64_t k) { return v[v.size() == 1 ? 0 : size_t(k)]; };
  for (int64_t first = 0; first < im.c; first += kChannels) {
    const int channels = int(std::min<int64_t>(kChannels, im.c - first));
    Normalize<To> value{.scaled = std::is_same_v<In, uint8_t>, .on = !o.mean.empty(), .mean = {}, .std = {}};
    for (int k = 0; value.on && k < channels; ++k) {
      value.mean[k] = Compute<To>(per_channel(o.mean, first + k));
      value.std[k] = Compute<To>(per_channel(o.std, first + k));
    }
    launch(on, grid, augment_kernel<In, To>, y.ptr<To>(), x.ptr<In>(), im, place, Key(key),
           rows ? rows.ptr<int64_t>() : nullptr, RangeCheck(x.device(), RangeOf::images, x.size(0)),
           o.crop ? o.crop->mode : PaddingMode::constant, Compute<In>(o.crop ? o.crop->fill : 0), value, first,
           channels);
  }
}

void augment_cuda(Tensor& y, const Tensor& x, const Tensor& rows, const AugmentKey& key, const AugmentOptions& o) {
  if (y.numel() == 0) return;
  if (x.dtype() != Dtype::u8)
    return dispatch_float(x.dtype(), [&](auto t) {
      using T = decltype(t);
      write_images<T, T>(y, x, rows, key, o);
    });
  if (o.to_float)
    write_images<uint8_t, float>(y, x, rows, key, o);
  else
    write_images<uint8_t, uint8_t>(y, x, rows, key, o);
}

TANDEM_KERNEL(augment_forward, cuda, augment_cuda);

}  // namespace
}  // namespace tandem::cuda_impl
