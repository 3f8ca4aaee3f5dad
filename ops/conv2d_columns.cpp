#include <tandem/core/copy.h>
#include <tandem/core/parallel_for.h>
#include <tandem/ops/conv2d_kernels.h>
#include <tandem/ops/gemm.h>
#include <tandem/ops/parallel_scratch.h>

#include <algorithm>

namespace tandem::detail {
namespace {

constexpr int64_t kColumnsBytes = 256 << 10;  // of a block of columns, to stay in a core's cache
constexpr int64_t kPartialBytes = 32 << 20;   // of partial weight gradients, at most
constexpr int64_t kMostParts = 16;
constexpr int64_t kGrain = 1 << 16;  // multiplications worth a thread

// The windows of one group of one image. A row of columns is one output pixel's window, [kh, kw, group_in].
template <class T>
struct Columns {
  const ConvShape& s;
  int64_t k = s.kh * s.kw * s.group_in();
  int64_t pixels = s.ho * s.wo;
  // Output pixels at a time.
  int64_t block = std::clamp<int64_t>(kColumnsBytes / std::max<int64_t>(1, k* int64_t(sizeof(T))) / 16 * 16, 16,
                                      std::max<int64_t>(16, pixels));
  int64_t blocks = (pixels + block - 1) / block;

  int64_t block_pixels(int64_t b) const { return std::min(block, pixels - b * block); }
  int64_t size() const { return block * k; }

  // f(element of the image, element of the row, count) for every run of channels; the image's is null in the padding.
  template <class Image, class F>
  void for_runs(Image* image, int64_t group, int64_t pixel, F&& f) const {
    const int64_t top = pixel / s.wo * s.o.stride.h - s.o.padding.h, c = s.group_in();
    const int64_t left = pixel % s.wo * s.o.stride.w - s.o.padding.w;
    int64_t at = 0;
    for (int64_t u = 0; u < s.kh; ++u)
      for (int64_t v = 0; v < s.kw; ++v, at += c) {
        const int64_t row = top + u * s.o.dilation.h, col = left + v * s.o.dilation.w;
        const bool inside = row >= 0 && row < s.h && col >= 0 && col < s.w;
        f(inside ? image + (row * s.w + col) * s.in + group * c : nullptr, at, c);
      }
  }
  void gather(const T* image, int64_t group, int64_t b, T* to) const {
    for (int64_t p = 0; p < block_pixels(b); ++p, to += k)
      for_runs(image, group, b * block + p, [=](const T* from, int64_t at, int64_t c) {
        if (from)
          for (int64_t i = 0; i < c; ++i) to[at + i] = from[i];
        else
          std::fill_n(to + at, c, T(0));
      });
  }
  void scatter_add(const T* from, int64_t group, int64_t b, T* image) const {
    for (int64_t p = 0; p < block_pixels(b); ++p, from += k)
      for_runs(image, group, b * block + p, [=](T* to, int64_t at, int64_t c) {
        if (to)
          for (int64_t i = 0; i < c; ++i) to[i] += from[at + i];
      });
  }
};

template <class T>
void forward(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const ConvShape& s) {
  const Columns<T> columns{s};
  const int64_t k = columns.k, out = s.group_out(), tasks_per_image = s.o.groups * columns.blocks;
  const int64_t work = columns.block * k * out;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
  parallel_with_scratch<T>(
      s.n * tasks_per_image, grain, columns.size(), x.device(), [&](T* scratch, int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t image = task / tasks_per_image, group = task % tasks_per_image / columns.blocks;
          const int64_t block = task % columns.blocks;
          columns.gather(x.ptr<T>() + image * s.h * s.w * s.in, group, block, scratch);
          gemm_serial<T>({.m = columns.block_pixels(block),
                          .n = out,
                          .k = k,
                          .a = {scratch, k},
                          .b = {w.ptr<T>() + group * out * k, k, true},
                          .c = y.ptr<T>() + (image * columns.pixels + block * columns.block) * s.out + group * out,
                          .c_stride = s.out,
                          .bias = b ? b.ptr<T>() + group * out : nullptr});
        }
      });
}

// Windows overlap, so the blocks of an image go one after the other.
template <class T>
void backward_data(const Out& gx, const Tensor& gy, const Tensor& w, const ConvShape& s) {
  const Columns<T> columns{s};
  const int64_t k = columns.k, out = s.group_out(), image_size = s.h * s.w * s.in;
  parallel_with_scratch<T>(s.n, 1, columns.size(), gy.device(), [&](T* scratch, int64_t begin, int64_t end) {
    for (int64_t image = begin; image < end; ++image) {
      T* to = gx.t.ptr<T>() + image * image_size;
      if (gx.beta == 0) std::fill_n(to, image_size, T(0));
      for (int64_t group = 0; group < s.o.groups; ++group)
        for (int64_t block = 0; block < columns.blocks; ++block) {
          gemm_serial<T>(
              {.m = columns.block_pixels(block),
               .n = k,
               .k = out,
               .a = {gy.ptr<T>() + (image * columns.pixels + block * columns.block) * s.out + group * out, s.out},
               .b = {w.ptr<T>() + group * out * k, k},
               .c = scratch,
               .c_stride = k});
          columns.scatter_add(scratch, group, block, to);
        }
    }
  });
}

// Images are summed in a number of parts that depends on the shape alone.
template <class T>
void backward_weight(const Out& gw, const Tensor& gy, const Tensor& x, const ConvShape& s) {
  const Columns<T> columns{s};
  const int64_t k = columns.k, out = s.group_out(), size = s.out * k;
  const int64_t fit = kPartialBytes / std::max<int64_t>(1, size * int64_t(sizeof(T)));
  const int64_t parts = std::clamp<int64_t>(std::min(s.n, fit), 1, kMostParts);
  Tensor partial = zeros({parts, size}, {.dtype = dtype_of<T>, .device = gy.device()});
  parallel_with_scratch<T>(parts, 1, columns.size(), gy.device(), [&](T* scratch, int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t image = s.n * part / parts; image < s.n * (part + 1) / parts; ++image)
        for (int64_t group = 0; group < s.o.groups; ++group)
          for (int64_t block = 0; block < columns.blocks; ++block) {
            const T* g = gy.ptr<T>() + (image * columns.pixels + block * columns.block) * s.out + group * out;
            columns.gather(x.ptr<T>() + image * s.h * s.w * s.in, group, block, scratch);
            gemm_serial<T>({.m = out,
                            .n = k,
                            .k = columns.block_pixels(block),
                            .a = {g, s.out, true},
                            .b = {scratch, k},
                            .c = partial.ptr<T>() + part * size + group * out * k,
                            .c_stride = k,
                            .add = true});
          }
  });
  T* to = gw.t.ptr<T>();
  const T* from = partial.ptr<T>();
  const bool add = gw.beta != 0;
  tandem::parallel_for(size, kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t part = 0; part < parts; ++part) sum += from[part * size + i];
      to[i] = add ? to[i] + sum : sum;
    }
  });
}

}  // namespace

void conv2d_forward_columns(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  Tensor rows = as_layout(w, Layout::channels_last);  // [out, kh, kw, in / groups]
  dispatch_real("conv2d", x.dtype(), [&](auto t) { forward<decltype(t)>(y, x, rows, b, ConvShape(x, w, y, o)); });
}

void conv2d_backward_data_columns(const Out& gx, const Tensor& gy, const Tensor& w, const Conv2dOptions& o) {
  Tensor rows = as_layout(w, Layout::channels_last);
  dispatch_real("conv2d", gy.dtype(),
                [&](auto t) { backward_data<decltype(t)>(gx, gy, rows, ConvShape(gx.t, w, gy, o)); });
}

void conv2d_backward_weight_columns(const Out& gw, const Tensor& gy, const Tensor& x, const Conv2dOptions& o) {
  in_layout(gw, Layout::channels_last, [&](const Out& rows) {
    dispatch_real("conv2d", gy.dtype(),
                  [&](auto t) { backward_weight<decltype(t)>(rows, gy, x, ConvShape(x, rows.t, gy, o)); });
  });
}

}  // namespace tandem::detail
